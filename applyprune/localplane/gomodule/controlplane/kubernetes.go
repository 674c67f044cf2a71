package main

import (
	"os"
	_ "time/tzdata" // CronJobs name time zones

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func etcd() {
	etcdmain.Main(os.Args)
}

func kubeAPIServer() {
	runDaemon(apiserver.NewAPIServerCommand())
}

func kubeControllerManager() {
	runDaemon(controllermanager.NewControllerManagerCommand())
}

func kubeScheduler() {
	runDaemon(scheduler.NewSchedulerCommand())
}

func runDaemon(command *cobra.Command) {
	os.Exit(cli.Run(command))
}
