package arch

import (
	"bufio"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/zkd-project/zkd"

const root = "../.."

type pkg struct {
	ImportPath string
	Dir        string
	Imports    []string
	GoFiles    []string
}

// packages lists the module's packages with the imports of their code, tests left out.
func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,GoFiles", "./...")
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	var all []pkg
	for dec := json.NewDecoder(strings.NewReader(string(out))); dec.More(); {
		var p pkg
		require.NoError(t, dec.Decode(&p))
		all = append(all, p)
	}
	require.NotEmpty(t, all)
	return all
}

// graph reads the deps block of docs/architecture.md.
func graph(t *testing.T) map[string][]string {
	t.Helper()
	f, err := os.Open(filepath.Join(root, "docs/architecture.md"))
	require.NoError(t, err)
	defer f.Close()
	g := map[string][]string{}
	in := false
	for sc := bufio.NewScanner(f); sc.Scan(); {
		line := sc.Text()
		switch {
		case line == "```deps":
			in = true
		case line == "```":
			in = false
		case in:
			line, _, _ = strings.Cut(line, "#")
			name, deps, ok := strings.Cut(line, ":")
			require.True(t, ok, "line %q of the deps block has no colon", line)
			require.NotContains(t, g, name, "twice in the deps block")
			g[name] = strings.Fields(deps)
		}
	}
	require.NotEmpty(t, g, "docs/architecture.md has no deps block")
	return g
}

func TestPackagesImportOnlyWhatTheArchitectureSays(t *testing.T) {
	g := graph(t)
	seen := map[string]bool{}
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		allowed, ok := g[name]
		if !ok {
			parent, _ := filepath.Split(name)
			allowed, ok = g[strings.TrimSuffix(parent, "/")+"/*"]
		}
		if !ok && len(p.GoFiles) == 0 {
			continue // tests only
		}
		if !ok {
			t.Errorf("%s is not in the deps block of docs/architecture.md", name)
			continue
		}
		seen[name] = true
		if slices.Contains(allowed, "*") {
			continue
		}
		for _, imp := range p.Imports {
			if dep, ours := strings.CutPrefix(imp, module+"/"); ours && !slices.Contains(allowed, dep) {
				t.Errorf("%s imports %s, which docs/architecture.md does not allow", name, dep)
			}
		}
	}
	for name, deps := range g {
		if strings.HasSuffix(name, "/*") {
			continue
		}
		if !seen[name] {
			t.Errorf("the deps block names %s, which does not exist", name)
		}
		for _, d := range deps {
			if d != "*" && !seen[d] {
				t.Errorf("the deps block lets %s import %s, which does not exist", name, d)
			}
		}
	}
}

// pure packages take time as an argument and touch nothing outside: that is what makes a simulated failure replay exactly.
var pure = []string{"proto", "txn", "zab", "session", "datatree", "statemachine", "quorum", "leader", "follower"}

// cores may not even read a map in its own order, or start a goroutine.
var cores = []string{"zab", "quorum", "leader", "follower"}

func TestPurePackagesTouchNothingOutside(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(pure, name) {
			continue
		}
		for _, imp := range p.Imports {
			for _, bad := range []string{"net", "os", "context", "sync", "log", "math/rand", "crypto/rand", "syscall", "runtime", "unsafe"} {
				if imp == bad || strings.HasPrefix(imp, bad+"/") || strings.HasPrefix(imp, "go.uber.org/") {
					t.Errorf("%s is pure and imports %s", name, imp)
				}
			}
		}
		for _, file := range p.GoFiles {
			checkPureFile(t, filepath.Join(p.Dir, file), slices.Contains(cores, name))
		}
	}
}

// checkPureFile forbids goroutines, channels and the clock.
func checkPureFile(t *testing.T, path string, core bool) {
	t.Helper()
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, path, nil, 0)
	require.NoError(t, err)
	ast.Inspect(f, func(n ast.Node) bool {
		bad := ""
		switch n := n.(type) {
		case *ast.GoStmt:
			bad = "a goroutine"
		case *ast.ChanType:
			bad = "a channel"
		case *ast.SelectStmt:
			bad = "a select"
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" && x.Obj == nil {
				ok := slices.Contains([]string{"Duration", "Nanosecond", "Microsecond", "Millisecond", "Second", "Minute", "Hour"}, n.Sel.Name)
				if core && !ok || n.Sel.Name == "Now" || n.Sel.Name == "Sleep" || n.Sel.Name == "After" {
					bad = "time." + n.Sel.Name
				}
			}
		}
		if bad != "" {
			t.Errorf("%s: %s in a pure package", set.Position(n.Pos()), bad)
		}
		return true
	})
}

// doors are the only packages that may import an outside module.
var doors = map[string][]string{
	"github.com/google/btree":           {"datatree"},
	"github.com/hashicorp/go-msgpack":   {"internal/msgpack"},
	"github.com/spf13/pflag":            {"cmd/zkd", "cmd/zkcli", "cmd/zkdsim"},
	"go.uber.org/zap":                   {"peer", "server", "cmd/zkd"},
	"golang.org/x/sys":                  {"internal/env", "internal/socket"},
	"golang.org/x/term":                 {"cmd/zkcli"},
	"github.com/stretchr/testify":       {},
	"go.uber.org/goleak":                {},
	"github.com/go-zookeeper/zk":        {"test/foreign/gozk", "test/foreign/gozk/tour"},
	"honnef.co/go/tools":                {},
	"github.com/anishathalye/porcupine": {"internal/sim"},
}

func TestEachOutsideModuleHasOneDoor(t *testing.T) {
	for _, p := range packages(t) {
		name := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imp := range p.Imports {
			first, _, _ := strings.Cut(imp, "/")
			if !strings.Contains(first, ".") || strings.HasPrefix(imp, module) {
				continue
			}
			known := false
			for mod, at := range doors {
				if imp == mod || strings.HasPrefix(imp, mod+"/") {
					known = true
					if !slices.Contains(at, name) {
						t.Errorf("%s imports %s; only %v may", name, imp, at)
					}
				}
			}
			if !known {
				t.Errorf("%s imports %s, which has no line in the doors", name, imp)
			}
		}
	}
}

func TestEveryDependencyEarnsItsLine(t *testing.T) {
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	require.NoError(t, err)
	doc, err := os.ReadFile(filepath.Join(root, "docs/dependencies.md"))
	require.NoError(t, err)
	for _, line := range strings.Split(string(mod), "\n") {
		fields := strings.Fields(strings.TrimPrefix(strings.TrimSpace(line), "require "))
		if len(fields) < 2 || !strings.Contains(fields[0], ".") || strings.Contains(line, "// indirect") || strings.HasPrefix(line, "module") {
			continue
		}
		if !strings.Contains(string(doc), fields[0]) {
			t.Errorf("docs/dependencies.md has no line for %s", fields[0])
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range packages(t) {
		documented := false
		for _, file := range p.GoFiles {
			f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(p.Dir, file), nil, parser.ParseComments|parser.PackageClauseOnly)
			require.NoError(t, err)
			documented = documented || f.Doc != nil
		}
		if len(p.GoFiles) > 0 && !documented {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}

func TestTheCodeIsFormattedAndClean(t *testing.T) {
	var files []string
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && (d.Name() == ".git" || d.Name() == "testdata") {
			return fs.SkipDir
		}
		if strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return err
	}))
	out, err := exec.Command("gofmt", append([]string{"-l"}, files...)...).CombinedOutput()
	require.NoError(t, err, string(out))
	require.Empty(t, string(out), "gofmt would change these")
	for _, args := range [][]string{{"vet", "./..."}, {"tool", "staticcheck", "./..."}} {
		cmd := exec.Command("go", args...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, fmt.Sprintf("go %s:\n%s", strings.Join(args, " "), out))
	}
}
