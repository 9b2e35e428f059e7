package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// call runs the command and returns its exit code and what it printed.
func call(args ...string) (int, string, string) {
	var out, errOut strings.Builder
	code := run(args, &out, &errOut)
	return code, out.String(), errOut.String()
}

func TestRunSumsUpAndSucceeds(t *testing.T) {
	code, out, _ := call("run", "--seeds", "2", "--nodes", "3")
	require.Zero(t, code, out)
	require.Regexp(t, `seeds=2 steps=\d+ simulated=\S+ rate=\d+ sim s/CPU min .* violations=0`, out)
}

func TestASeedThatIsNoneIsSaid(t *testing.T) {
	for _, c := range [][2]string{{"", "zkdsim: --seed is missing"}, {"0x1g", "zkdsim: --seed 0x1g: want a number"}} {
		code, _, errs := call("replay", "--seed", c[0])
		require.Equal(t, 2, code)
		require.Contains(t, errs, c[1])
	}
}

func TestReplayPrintsTheSameHashEveryTime(t *testing.T) {
	hash := regexp.MustCompile(`hash=[0-9a-f]{16}`)
	_, first, _ := call("replay", "--seed", "3")
	_, again, _ := call("replay", "--seed", "0x3")
	require.NotEmpty(t, hash.FindString(first))
	require.Equal(t, first, again)
	_, short, _ := call("replay", "--seed", "3", "--steps", "100", "-v")
	require.Contains(t, short, "steps=100 ")
	require.NotEqual(t, hash.FindString(first), hash.FindString(short))
}

// replayed is what TestEveryProcessReplaysTheSame compares: the last lines of some seeds' replays.
func replayed() string {
	var all strings.Builder
	for _, seed := range []string{"2", "0x11", "25"} {
		_, out, _ := call("replay", "--seed", seed)
		all.WriteString(seed + " " + out)
	}
	return all.String()
}

// childMark begins each line that a child of TestEveryProcessReplaysTheSame has to say.
const childMark = "replayed: "

func TestEveryProcessReplaysTheSame(t *testing.T) {
	if os.Getenv("ZKDSIM_CHILD") != "" {
		for line := range strings.Lines(replayed()) {
			fmt.Print(childMark, line)
		}
		return
	}
	want := replayed()
	for _, procs := range []string{"1", "4"} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestEveryProcessReplaysTheSame$")
		cmd.Env = append(os.Environ(), "ZKDSIM_CHILD=1", "GOMAXPROCS="+procs, "GOGC="+procs+"0")
		out, err := cmd.Output()
		require.NoError(t, err, string(out))
		var got strings.Builder
		for line := range strings.Lines(string(out)) {
			if said, ok := strings.CutPrefix(line, childMark); ok {
				got.WriteString(said)
			}
		}
		require.Equal(t, want, got.String(), "GOMAXPROCS=%s", procs)
	}
}

func TestAScheduleThatFailsIsToldInOneLineFirst(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.txt")
	require.NoError(t, os.WriteFile(path, []byte("seed 1\nawait leader\nis there /nowhere\n"), 0o600))
	code, out, _ := call("play", path)
	require.Equal(t, 1, code)
	require.Regexp(t, `^SIM FAIL seed=0x1 commit=\S+ nodes=3 steps=\d+ invariant=SCHEDULE .*replay="go run ./cmd/zkdsim play `+path+` --steps \d+ -v"`, out)
}

func TestAScheduleDoesWhatItSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "good.txt")
	require.NoError(t, os.WriteFile(path, []byte(`seed 1
await leader; await serving all
write /x one as w1; await w1; is there /x
catch propose leader 1; catch append 2
partition 1 | 2 3; wait 3s; heal
await leader; await serving all; catch nothing
`), 0o600))
	code, out, errOut := call("play", path)
	require.Zero(t, code, out+errOut)
}

func TestWrongUsageIsExitCodeTwo(t *testing.T) {
	for _, args := range [][]string{{}, {"walk"}, {"replay"}, {"replay", "--seed", "x"}, {"replay", "--seeds", "3"}, {"replay", "0x17"}, {"play"}, {"run", "--seeds", "0"}, {"run", "--what"}} {
		code, _, errOut := call(args...)
		require.Equal(t, 2, code, "%v", args)
		require.NotEmpty(t, errOut, "%v", args)
	}
}

func TestHelpOfACommandListsItsOwnFlags(t *testing.T) {
	code, out, _ := call("--help")
	require.Zero(t, code)
	for _, c := range commands() {
		require.Contains(t, out, c.help)
		code, own, _ := call(c.name, "--help")
		require.Zero(t, code)
		require.Contains(t, own, c.help)
		require.Len(t, regexp.MustCompile(`(?m)^  (    |-v, )--`).FindAllString(own, -1), len(c.flags), "one line per flag:\n%s", own)
	}
	require.NotContains(t, out, "--porcupine")
}

func TestShrinkSaysWhenThereIsNothingToShrink(t *testing.T) {
	code, out, _ := call("shrink", "--seed", "3", "--out", t.TempDir())
	require.Zero(t, code)
	require.Contains(t, out, "does not fail")
}
