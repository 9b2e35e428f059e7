// Command difftest runs a zkd beside an Apache ZooKeeper 3.9.5, or beside another zkd, and looks for a difference.
//
//	go run ./internal/difftest/cmd/difftest --ops 200000 --seed 1 --zookeeper auto
//
// Exit codes: 0 no difference that is not meant; 1 a difference, or a server that broke down; 2 wrong usage; 3 no Java or
// no jars, so nothing was compared.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/zkd-project/zkd/internal/difftest"
)

func main() { os.Exit(run()) }

// options are the flags that main uses itself.
type options struct {
	zookeeper, zkd, against string
	set                     difftest.Settings
}

func run() int {
	c := difftest.Campaign{Log: os.Stdout}
	var opt options
	flag.IntVar(&c.Ops, "ops", 200000, "how many operations")
	flag.Uint64Var(&c.Seed, "seed", 1, "seed of the first episode; the following ones count on")
	flag.IntVar(&c.Episode, "episode", 4000, "operations of one episode")
	flag.IntVar(&c.Budget, "shrink", 80, "how often a failing episode is run again to make it shorter")
	flag.IntVar(&c.Differences, "differences", 1, "stop after so many different ones")
	flag.StringVar(&c.Dir, "dir", memory(), "folder for the servers' data")
	flag.StringVar(&opt.zookeeper, "zookeeper", "auto", "A is Apache ZooKeeper: folder of its jars, or auto; or none: A is a standalone zkd")
	flag.StringVar(&opt.zkd, "zkd", "", "binary of zkd; built unless given")
	flag.StringVar(&opt.against, "b", "standalone", "B is a zkd: standalone, leader, follower or observer")
	flag.BoolVar(&opt.set.Extended, "extended", true, "with TTL nodes")
	flag.BoolVar(&opt.set.Timed, "timed", false, "let sessions expire and nodes be swept; about an operation each second")
	flag.Parse()
	if flag.NArg() > 0 || c.Ops < 1 || c.Episode < 1 || c.Differences < 1 {
		flag.Usage()
		return 2
	}
	if code, err := opt.servers(&c); err != nil {
		fmt.Fprintln(os.Stderr, "difftest:", err)
		return code
	}
	if opt.zkd == "" {
		defer os.Remove(opt.built())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	res, err := c.Run(ctx)
	fmt.Println(res)
	if err != nil {
		fmt.Fprintln(os.Stderr, "difftest:", err)
		return 1
	}
	if len(res.Differences) > 0 {
		return 1
	}
	return 0
}

// built is where a zkd that was built here lies.
func (o *options) built() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("zkd-difftest-%d", os.Getpid()))
}

// servers fills in A and B. The code is for the exit, should there be an error.
func (o *options) servers(c *difftest.Campaign) (int, error) {
	c.Options.Timed = o.set.Timed
	binary := o.zkd
	if binary == "" {
		binary = o.built()
		build := exec.Command("go", "build", "-o", binary, "github.com/zkd-project/zkd/cmd/zkd")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			return 1, fmt.Errorf("build zkd: %w", err)
		}
	}
	switch o.zookeeper {
	case "none":
		c.A = difftest.StartZkd(binary, o.set)
	default:
		jars, err := findJars(o.zookeeper)
		if err != nil {
			return 3, err
		}
		c.A = difftest.StartZooKeeper(jars, o.set)
	}
	switch o.against {
	case "standalone":
		c.B = difftest.StartZkd(binary, o.set)
	case "leader", "follower", "observer":
		c.B = difftest.StartEnsemble(binary, o.against, o.set)
		c.Options.Ensemble = true
	default:
		return 2, fmt.Errorf("-b %s: want standalone, leader, follower or observer", o.against)
	}
	return 0, nil
}

// findJars returns the folder with the jars of Apache ZooKeeper, which test/foreign/install.sh fills.
func findJars(dir string) (string, error) {
	if dir == "auto" {
		cache := os.Getenv("ZKD_FOREIGN_CACHE")
		if cache == "" {
			base, err := os.UserCacheDir()
			if err != nil {
				return "", err
			}
			cache = filepath.Join(base, "zkd-foreign")
		}
		dir = filepath.Join(cache, "java")
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "zookeeper-3.9.5.jar")); len(found) == 0 {
		return "", fmt.Errorf("no zookeeper-3.9.5.jar in %s: run test/foreign/install.sh", dir)
	}
	if _, err := exec.LookPath("java"); err != nil {
		return "", err
	}
	return dir, nil
}

// memory is a folder whose files cost no disk, if there is one: nothing here has to survive.
func memory() string {
	const shm = "/dev/shm"
	if f, err := os.CreateTemp(shm, "zkd-difftest-probe-"); err == nil {
		f.Close()
		os.Remove(f.Name())
		return shm
	}
	return os.TempDir()
}
