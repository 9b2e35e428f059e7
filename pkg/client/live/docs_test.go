package live

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// names are the exported identifiers of a package: "Get", methods as "Conn.Get".
type names map[string]bool

// exportsOf parses the package in dir.
func exportsOf(t *testing.T, dir string) names {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	found := names{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		require.NoError(t, err)
		for _, d := range f.Decls {
			found.add(d)
		}
	}
	return found
}

func (n names) add(d ast.Decl) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		name := d.Name.Name
		if d.Recv != nil {
			of := d.Recv.List[0].Type
			if p, ok := of.(*ast.StarExpr); ok {
				of = p.X
			}
			receiver, ok := of.(*ast.Ident)
			if !ok || !receiver.IsExported() {
				return
			}
			name = receiver.Name + "." + name
		}
		if d.Name.IsExported() {
			n[name] = true
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				if s.Name.IsExported() {
					n[s.Name.Name] = true
				}
			case *ast.ValueSpec:
				for _, id := range s.Names {
					if id.IsExported() {
						n[id.Name] = true
					}
				}
			}
		}
	}
}

// The table in the document names everything that go-zookeeper exports, nothing that it does not, and of ours only what there is.
func TestTableOfGoZookeeper(t *testing.T) {
	text, err := os.ReadFile("../../../docs/client.md")
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "## Coming from go-zookeeper/zk")
	require.True(t, found)
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "github.com/go-zookeeper/zk").Output()
	require.NoError(t, err)
	ours := map[string]names{"client": exportsOf(t, ".."), "recipes": exportsOf(t, "../recipes")}
	for _, recipe := range []string{"lock", "presence"} {
		ours[recipe] = exportsOf(t, "../recipes/"+recipe)
	}

	code, word := regexp.MustCompile("`[^`]*`"), regexp.MustCompile(`[A-Z]\w+`)
	qualified := regexp.MustCompile(`\b([a-zA-Z]+)\.([A-Z]\w*)`)
	listed, exported := names{}, names{}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, c := range code.FindAllString(cells[1], -1) {
			for _, w := range word.FindAllString(c, -1) {
				listed[w] = true
			}
		}
		for _, m := range qualified.FindAllStringSubmatch(strings.Join(code.FindAllString(cells[2], -1), " "), -1) {
			name, pkg := m[2], m[1]
			if pkg == "slog" || pkg == "time" || pkg == "errors" {
				continue
			}
			if ours[pkg] == nil { // a method
				name, pkg = m[1]+"."+m[2], "client"
			}
			require.True(t, ours[pkg][name], "%s: there is no %s.%s", strings.TrimSpace(line), pkg, name)
		}
	}
	for name := range exportsOf(t, strings.TrimSpace(string(dir))) {
		exported[name[strings.LastIndexByte(name, '.')+1:]] = true
	}
	require.Equal(t, exported, listed)
}
