package proto

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestValidatePath(t *testing.T) {
	good := []string{
		"/", "/a", "/a/b", "/...", "/.a", "/a.", "/a..b", "/..a", "/a/...", "/ ", "/a ", "/ /b", "/é",
		"/\u00a0", "/\u007e", "/\u0020", "/\uf900", "/\uffef", "/\ud7ff", "/a/0000000000",
	}
	for _, p := range good {
		require.NoError(t, ValidatePath(p), "%q", p)
	}
	bad := []string{
		"", "a", "a/b", "//", "/a/", "//a", "/a//b", "/.", "/..", "/./a", "/../a", "/a/.", "/a/..", "/a/./b", "/a/../b",
		"/\x00", "/a\x1f", "/\u007f", "/\u0080", "/\u009f", "/\ue000", "/\uf8ff", "/\ufff0", "/\ufffd", "/\uffff",
		"/\U00010000", "/😀", "/\xff", "/a\xc3", "/\xed\xa0\x80",
	}
	for _, p := range bad {
		require.ErrorIs(t, ValidatePath(p), ErrBadArguments, "%q", p)
	}
}

func TestPartialValidation(t *testing.T) {
	tests := []struct {
		path             string
		create, deletion bool // accepted
	}{
		{"/a", true, true}, {"a/b", true, true}, {"//", true, true}, {"/a/", true, true}, {"/a\x01", true, true},
		{"/zookeeper/x", true, true}, {"/zookeeper/", true, true},
		{"", false, false}, {"a", false, false}, {"/a\x00", false, false}, {"\x00/", false, false},
		{"/", true, false}, {"/zookeeper", true, false}, {"/zookeeper/quota", true, false}, {"/zookeeper/config", true, false},
	}
	for _, tt := range tests {
		require.Equal(t, tt.create, ValidateForCreate(tt.path) == nil, "create %q", tt.path)
		require.Equal(t, tt.deletion, ValidateForDelete(tt.path) == nil, "delete %q", tt.path)
	}
}

func TestSplit(t *testing.T) {
	f := func(path, parent, name string) {
		t.Helper()
		p, n := Split(path)
		require.Equal(t, [2]string{parent, name}, [2]string{p, n}, "%q", path)
		require.Equal(t, parent, Parent(path))
	}
	f("/", "/", "")
	f("/a", "/", "a")
	f("/a/b", "/a", "b")
	f("/a/b/c", "/a/b", "c")
	f("/a/", "/a", "")
	f("/vec//a", "/vec/", "a")
	f("//", "/", "")
	f("a/b", "a", "b")
	f("a", "/", "a")
	f("", "/", "")
}
