package mutant

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// asked finds every name that the code asks for, with a place for each.
func asked(t *testing.T) map[string]string {
	t.Helper()
	names := map[string]string{}
	set := token.NewFileSet()
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(set, path, nil, 0)
		if err != nil {
			return err
		}
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			fun, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || fun.Sel.Name != "On" {
				return true
			}
			if x, ok := fun.X.(*ast.Ident); !ok || x.Name != "mutant" {
				return true
			}
			at := set.Position(call.Pos()).String()
			name, ok := call.Args[0].(*ast.BasicLit)
			if !ok {
				t.Errorf("%s: the name of a mutant must be a literal", at)
				return true
			}
			s, err := strconv.Unquote(name.Value)
			require.NoError(t, err)
			names[s] = at
			return true
		})
		return nil
	})
	require.NoError(t, err)
	return names
}

func TestRegistryAndCodeNameTheSameMutants(t *testing.T) {
	code := asked(t)
	seen := map[string]bool{}
	for _, m := range All() {
		require.False(t, seen[m.Name], "%s is registered twice", m.Name)
		seen[m.Name] = true
		require.Contains(t, code, m.Name, "registered, and nothing asks for it")
		require.NotEmpty(t, m.Rules, m.Name)
		require.NotEmpty(t, m.Breaks, m.Name)
		require.True(t, strings.HasSuffix(m.Breaks, "."), "%s: a sentence ends with a full stop", m.Name)
	}
	for name, at := range code {
		require.True(t, seen[name], "%s asks for %q, which is not registered", at, name)
	}
	require.GreaterOrEqual(t, len(seen), 45)
}

func TestEveryOrderRuleAndEveryScheduleHasAMutant(t *testing.T) {
	kept := map[string]bool{}
	for _, m := range All() {
		for _, r := range m.Rules {
			kept[r] = true
		}
	}
	for n := 1; n <= 15; n++ {
		if n != 13 { // membership change, which is not built
			require.True(t, kept["O"+strconv.Itoa(n)], "O%d", n)
		}
	}
	for n := 1; n <= 9; n++ {
		require.True(t, kept["X"+strconv.Itoa(n)], "X%d", n)
	}
}

func TestAnOrdinaryBuildBreaksNothing(t *testing.T) {
	for _, m := range All() {
		require.False(t, On(m.Name), m.Name)
	}
}
