package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/internal/mutant"
)

const root = "../.."

func TestEveryRuleHasSomethingThatShowsIt(t *testing.T) {
	rows, err := Table(root, mutant.All())
	require.NoError(t, err)
	require.Greater(t, len(rows), 130)
	kinds := map[byte]int{}
	for _, r := range rows {
		kinds[r.Rule[0]]++
		require.False(t, len(r.Schedules)+len(r.Tests) == 0 && r.Waits == "", "nothing shows that %s is kept", r.Rule)
		require.True(t, r.Waits == "" || r.Waits == "waits for membership change", "%s: %s", r.Rule, r.Waits)
	}
	require.Equal(t, 77, kinds['R'])
	require.Equal(t, 15, kinds['O'])
	require.Equal(t, 17, kinds['S'])
}

func TestTheDocumentHasTheTableOfToday(t *testing.T) {
	rows, err := Table(root, mutant.All())
	require.NoError(t, err)
	have, err := written(root)
	require.NoError(t, err)
	require.Equal(t, Markdown(rows), have, "go run ./cmd/zkdsim rules --write puts it right")
}

var failureRow = regexp.MustCompile(`(?m)^\| (K\d\d) \|`)

// Each known failure is a schedule that begins with its id, or has a row in docs/testing.md that names a test which exists.
func TestTheCatalogueIsComplete(t *testing.T) {
	protocol, err := os.ReadFile(filepath.Join(root, protocolFile))
	require.NoError(t, err)
	testing, err := os.ReadFile(filepath.Join(root, testingFile))
	require.NoError(t, err)
	known := failureRow.FindAllSubmatch(protocol, -1)
	require.Len(t, known, 72)
	for _, k := range known {
		id := string(k[1])
		files, err := filepath.Glob(filepath.Join(root, "internal/sim/testdata/schedules", id+"*.txt"))
		require.NoError(t, err)
		if len(files) > 0 {
			continue
		}
		row := regexp.MustCompile(`(?m)^\| ` + id + ` \|(.*)$`).FindSubmatch(testing)
		require.NotNil(t, row, "%s has neither a schedule nor a row in %s", id, testingFile)
		if strings.Contains(string(row[1]), "waits for membership change") {
			continue
		}
		named := regexp.MustCompile("`([a-z/]+\\.Test\\w+)`").FindAllSubmatch(row[1], -1)
		require.NotEmpty(t, named, "%s names no test", id)
		for _, n := range named {
			require.NoError(t, exists(root, string(n[1])))
		}
	}
}

func TestSchedulesSayWhatTheyTry(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, scheduleGlob))
	require.NoError(t, err)
	for _, path := range files {
		b, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, strings.HasPrefix(string(b), "# "), "%s begins without a comment", path)
		if regexp.MustCompile(`^[KSX]\d\d`).MatchString(filepath.Base(path)) {
			require.Regexp(t, `(?m)^# rules: \S`, string(b), path)
		}
	}
}

// The table must not be believed blindly: what is not there is found out.
func TestWhatDoesNotExistIsAnError(t *testing.T) {
	require.ErrorContains(t, exists(root, "leader.TestNothing"), "there is no test")
	require.ErrorContains(t, exists(root, "leader"), "is not folder.TestName")
	require.Error(t, exists(root, "leader/testdata/nothing.txt"))
	require.NoError(t, exists(root, "leader.TestStories"))
	for file, text := range map[string]string{
		testsFile: "R-1 leader.TestStories\nR-99 leader.TestStories\n",
		"internal/sim/testdata/schedules/K99.txt": "# rules: R-1 R-99\n",
	} {
		dir := t.TempDir()
		write := func(name, text string) {
			require.NoError(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
			require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
		}
		write(protocolFile, "| R-1 | one | x.go |\n")
		write("leader/a_test.go", "\nfunc TestStories(t *testing.T) {}\n")
		write(testsFile, "")
		_, err := Table(dir, nil)
		require.NoError(t, err)
		write(file, text)
		_, err = Table(dir, nil)
		require.ErrorContains(t, err, "there is no rule R-99")
	}
}

func TestTheTableIsPutInItsPlace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, testingFile)
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, []byte("before\n"+begin+"old\n"+finish+"behind\n"), 0o600))
	rows := []Row{{Rule: "R-1", Schedules: []string{"K01", "K02"}, Mutants: []string{"O1"}, Tests: []string{"a.TestB"}}, {Rule: "R-52", Waits: "waits"}}
	require.NoError(t, Write(dir, rows))
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	require.Equal(t, "before\n"+begin+"\n| rule | schedules | mutants | other tests |\n|---|---|---|---|\n| R-1 | K01 K02 | O1 | a.TestB |\n| R-52 |  |  | waits |\n\n"+finish+"behind\n", string(b))
	have, err := written(dir)
	require.NoError(t, err)
	require.Equal(t, Markdown(rows), have)
	require.NoError(t, os.WriteFile(path, []byte("before\n"), 0o600))
	require.ErrorContains(t, Write(dir, rows), "has no place")
}
