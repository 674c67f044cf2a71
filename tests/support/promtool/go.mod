// Pins the release of promtool that checks deploy/monitoring; built by tests/support/promtool/__init__.py.
module promtool

go 1.26.7

require github.com/prometheus/prometheus v0.316.0
