package rules

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zkd-project/zkd/internal/mutant"
)

// Row is what shows that one rule is kept.
type Row struct {
	Rule      string
	Schedules []string // by name
	Mutants   []string
	Tests     []string // folder.TestName, or the path of a story
	Waits     string   // what a rule that is not built waits for
}

// The files, below the root of the repository.
const (
	protocolFile  = "docs/protocol.md"
	testingFile   = "docs/testing.md"
	testsFile     = "internal/rules/tests.txt"
	scheduleGlob  = "internal/sim/testdata/schedules/*.txt"
	begin, finish = "<!-- zkdsim rules -->\n", "<!-- end of zkdsim rules -->\n"
)

var ruleRow = regexp.MustCompile(`(?m)^\| ((?:R-|[ODSXL])\d+)(?: ○)? \|`)

// Table reads the repository at root. A rule that is named somewhere and that the protocol does not have is an error.
func Table(root string, mutants []mutant.Mutant) ([]Row, error) {
	protocol, err := os.ReadFile(filepath.Join(root, protocolFile))
	if err != nil {
		return nil, err
	}
	t := &table{at: map[string]int{}}
	for _, m := range ruleRow.FindAllSubmatch(protocol, -1) {
		if name := string(m[1]); !slices.ContainsFunc(t.rows, func(r Row) bool { return r.Rule == name }) {
			t.rows = append(t.rows, Row{Rule: name})
		}
	}
	slices.SortStableFunc(t.rows, func(a, b Row) int { return order(a.Rule) - order(b.Rule) })
	for i, r := range t.rows {
		t.at[r.Rule] = i
	}
	if err := t.schedules(root); err != nil {
		return nil, err
	}
	for _, m := range mutants {
		for _, rule := range m.Rules {
			if r := t.row(rule); r != nil && !slices.Contains(r.Mutants, m.Name) {
				r.Mutants = append(r.Mutants, m.Name)
			}
		}
	}
	return t.rows, t.tests(root)
}

type table struct {
	rows []Row
	at   map[string]int
}

// row is nil for what is no rule, as an invariant.
func (t *table) row(rule string) *Row {
	if i, ok := t.at[rule]; ok {
		return &t.rows[i]
	}
	return nil
}

// order sorts by kind, then number.
func order(rule string) int {
	kind := strings.IndexByte("RODSXL", rule[0])
	n := 0
	_, _ = fmt.Sscanf(strings.TrimLeft(rule, "RODSXL-"), "%d", &n)
	return kind*1000 + n
}

// schedules reads the rules lines in the heads of schedules.
func (t *table) schedules(root string) error {
	files, err := filepath.Glob(filepath.Join(root, scheduleGlob))
	if err != nil {
		return err
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(path), ".txt")
		for line := range strings.Lines(string(b)) {
			list, ok := strings.CutPrefix(line, "# rules:")
			if !ok {
				continue
			}
			for _, rule := range strings.Fields(list) {
				r := t.row(rule)
				if r == nil && ruleRow.MatchString("| "+rule+" |") {
					return fmt.Errorf("%s: there is no rule %s", path, rule)
				}
				if r != nil {
					r.Schedules = append(r.Schedules, name)
				}
			}
		}
	}
	return nil
}

// tests reads tests.txt.
func (t *table) tests(root string) error {
	b, err := os.ReadFile(filepath.Join(root, testsFile))
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(b)) {
		text, _, _ := strings.Cut(line, "#")
		f := strings.Fields(text)
		if len(f) == 0 {
			continue
		}
		r := t.row(f[0])
		switch {
		case r == nil:
			return fmt.Errorf("%s: there is no rule %s", testsFile, f[0])
		case len(f) > 1 && f[1] == "waits":
			r.Waits = strings.Join(f[1:], " ")
			continue
		}
		for _, test := range f[1:] {
			if err := exists(root, test); err != nil {
				return fmt.Errorf("%s: %s: %w", testsFile, f[0], err)
			}
			r.Tests = append(r.Tests, test)
		}
	}
	return nil
}

// exists looks for a story file, or a test function in the folder that is named before it.
func exists(root, test string) error {
	if strings.HasSuffix(test, ".txt") {
		_, err := os.Stat(filepath.Join(root, test))
		return err
	}
	dir, name, ok := strings.Cut(test, ".")
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil || !ok {
		return fmt.Errorf("%s is not folder.TestName", test)
	}
	for _, path := range files {
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Contains(b, []byte("\nfunc "+name+"(t *testing.T)")) {
			return nil
		}
	}
	return fmt.Errorf("there is no test %s", test)
}

// Markdown is the table as it stands in docs/testing.md.
func Markdown(rows []Row) string {
	var b strings.Builder
	b.WriteString("| rule | schedules | mutants | other tests |\n|---|---|---|---|\n")
	for _, r := range rows {
		tests := strings.Join(r.Tests, ", ")
		if r.Waits != "" {
			tests = r.Waits
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", r.Rule, strings.Join(r.Schedules, " "), strings.Join(r.Mutants, " "), tests)
	}
	return b.String()
}

// Write puts the table into docs/testing.md.
func Write(root string, rows []Row) error {
	path := filepath.Join(root, testingFile)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	head, rest, ok := strings.Cut(string(text), begin)
	_, tail, ok2 := strings.Cut(rest, finish)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no place for the table", path)
	}
	return os.WriteFile(path, []byte(head+begin+"\n"+Markdown(rows)+"\n"+finish+tail), 0o644)
}

// written is the table as the document has it.
func written(root string) (string, error) {
	text, err := os.ReadFile(filepath.Join(root, testingFile))
	if err != nil {
		return "", err
	}
	_, rest, _ := strings.Cut(string(text), begin)
	in, _, _ := strings.Cut(rest, finish)
	return strings.TrimPrefix(strings.TrimSuffix(in, "\n"), "\n"), nil
}
