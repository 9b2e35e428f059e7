package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// system is something that can be measured.
type system struct {
	name   string
	floor  bool // keeps nothing; only rows with a floor run it
	words  bool // answers four-letter words
	config bool // is told by a zoo.cfg
	java   bool
	// command starts member i of a cluster.
	command func(m *member) *exec.Cmd
}

// bench is what all rows share.
type bench struct {
	o       *options
	dir     string
	systems []*system
	rec     *record // what has been measured so far
	clients int     // number of clusters started, for the names of folders
}

// debianClasses is where Debian's package puts ZooKeeper; its manifest names the rest.
const debianClasses = "/usr/share/java/zookeeper.jar"

const serverClass = "org.apache.zookeeper.server.quorum.QuorumPeerMain"

// findSystems returns the systems that were asked for and are there; it says which are not.
func (b *bench) findSystems(ctx context.Context) error {
	for _, name := range b.o.systems {
		sys := &system{name: name, words: true, config: true}
		switch name {
		case "zkd":
			if err := b.buildZkd(ctx); err != nil {
				return err
			}
			sys.command = func(m *member) *exec.Cmd { return exec.Command(b.o.zkd, "--config", m.config) }
		case "zk38":
			if !b.javaRuns(debianClasses) {
				fmt.Fprintf(os.Stderr, "zk38 is left out: no java, or no %s\n", debianClasses)
				continue
			}
			sys.java = true
			sys.command = b.javaCommand(debianClasses)
		case "zk395":
			if b.o.zk395 == "" || !b.javaRuns("") {
				continue
			}
			sys.java = true
			sys.command = b.javaCommand(b.o.zk395)
		case "echo":
			self, err := os.Executable()
			if err != nil {
				return err
			}
			sys.floor, sys.words, sys.config = true, false, false
			sys.command = func(m *member) *exec.Cmd { return exec.Command(self, "echo", m.addr, fmt.Sprint(payloadBytes)) }
		default:
			return fmt.Errorf("unknown system %q: want zkd, zk38, zk395, echo", name)
		}
		b.systems = append(b.systems, sys)
	}
	return nil
}

func (b *bench) buildZkd(ctx context.Context) error {
	if b.o.zkd != "" {
		return nil
	}
	b.o.zkd = filepath.Join(b.dir, "zkd")
	build := exec.CommandContext(ctx, "go", "build", "-o", b.o.zkd, "github.com/zkd-project/zkd/cmd/zkd")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build zkd: %w\n%s", err, out)
	}
	return nil
}

// javaRuns reports whether there is a Java and, unless it is empty, a file.
func (b *bench) javaRuns(file string) bool {
	if _, err := exec.LookPath(b.o.java[0]); err != nil {
		return false
	}
	if file == "" {
		return true
	}
	_, err := os.Stat(file)
	return err == nil
}

// javaCommand starts a ZooKeeper as its own scripts would, but for the admin server, which is off, and the log, which only takes
// warnings.
func (b *bench) javaCommand(classes string) func(*member) *exec.Cmd {
	return func(m *member) *exec.Cmd {
		args := append(slices.Clone(b.o.java[1:]), "-Dzookeeper.admin.enableServer=false", "-cp", m.dir+string(os.PathListSeparator)+classes,
			serverClass, m.config)
		return exec.Command(b.o.java[0], args...)
	}
}

// logConfigs are for the two logging libraries that ZooKeeper has had.
var logConfigs = map[string]string{
	"log4j.properties": strings.Join([]string{"log4j.rootLogger=WARN, out", "log4j.appender.out=org.apache.log4j.ConsoleAppender",
		"log4j.appender.out.layout=org.apache.log4j.PatternLayout",
		"log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %-5p %c{1} %m%n", ""}, "\n"),
	"logback.xml": `<configuration><appender name="out" class="ch.qos.logback.core.ConsoleAppender"><encoder><pattern>%d %-5p %c{1} %m%n</pattern>` +
		`</encoder></appender><root level="WARN"><appender-ref ref="out"/></root></configuration>` + "\n",
}
