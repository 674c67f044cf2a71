# sh loop.sh FOLDER COMMAND…: runs the command in each folder of a folder, until one fails.
folder=$1
shift
for one in "$folder"/*/; do
  cd "$one" && "$@" || exit
done
