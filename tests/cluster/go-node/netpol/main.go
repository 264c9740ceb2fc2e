// Command netpol enforces NetworkPolicies on one node: the engine of sigs.k8s.io/kube-network-policies, fed by iptables.
//
// The engine's own nftables rules need nft's "queue" expression (CONFIG_NFT_QUEUE), which not every kernel has. Here
// the same packets go to the same queue by the NFQUEUE target of iptables, which nearly every kernel has.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"sigs.k8s.io/kube-network-policies/pkg/networkpolicy"
)

const (
	chain = "NETPOL"
	queue = 100
)

// rules are the arguments of `iptables -A NETPOL`, in order.
var rules = [][]string{
	// The node's own traffic passes: the kubelet's probes, which run as root.
	{"-m", "owner", "--uid-owner", "0", "-j", "RETURN"},
	// A connection is judged by its first packet.
	{"-m", "conntrack", "--ctstate", "ESTABLISHED,RELATED", "-j", "RETURN"},
	// While the engine is down everything passes, or a crash of it would cut the node off.
	{"-j", "NFQUEUE", "--queue-num", strconv.Itoa(queue), "--queue-bypass"},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig")
	node := flag.String("node", "", "name of the node that it runs on")
	klog.InitFlags(nil)
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *kubeconfig, *node); err != nil {
		klog.ErrorS(err, "Network policies are not enforced")
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, node string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	controller, err := networkpolicy.NewController(
		client, factory.Networking().V1().NetworkPolicies(), factory.Core().V1().Namespaces(), factory.Core().V1().Pods(),
		nil, nil, nil, nil, networkpolicy.Config{FailOpen: true, QueueID: queue, NodeName: node})
	if err != nil {
		return err
	}
	if err := divert(ctx); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	return controller.Run(ctx)
}

// divert sends the first packet of every new connection to the queue. A rule that a predecessor left is replaced.
func divert(ctx context.Context) error {
	jump := []string{"POSTROUTING", "-j", chain}
	_ = mangle(ctx, append([]string{"-D"}, jump...)...) // absent at the first start
	_ = mangle(ctx, "-N", chain)                        // present at a restart
	if err := mangle(ctx, "-F", chain); err != nil {
		return err
	}
	for _, rule := range rules {
		if err := mangle(ctx, append([]string{"-A", chain}, rule...)...); err != nil {
			return err
		}
	}
	return mangle(ctx, append([]string{"-A"}, jump...)...)
}

func mangle(ctx context.Context, arguments ...string) error {
	arguments = append([]string{"-w", "-t", "mangle"}, arguments...)
	if output, err := exec.CommandContext(ctx, "iptables", arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("iptables %v: %w: %s", arguments, err, output)
	}
	return nil
}
