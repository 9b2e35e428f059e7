package server

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/zkd-project/zkd/proto"
	"github.com/zkd-project/zkd/txn"
)

// rows says which test holds each of the 92 rows of the table of tricky cases. Those that need no connection are in statemachine,
// whose tests carry the rows' numbers.
var rows = map[string][]int{
	"TestConnectWithoutReadOnlyByte":                   {1},
	"TestTimeoutIsNegotiated":                          {2, 3},
	"TestNewSessionWithAnyPassword":                    {4},
	"TestWrongPasswordDoesNotTouchTheLiveConnection":   {5, 6},
	"TestReattach":                                     {7, 8, 10},
	"TestClientAheadIsClosed":                          {9},
	"TestStrangersAreClosed":                           {11},
	"TestFramesInASession":                             {12, 13, 14, 20},
	"TestUnknownOpIsAnsweredInItsTurn":                 {15, 16},
	"TestPing":                                         {17},
	"TestCloseSession":                                 {18},
	"TestFourLetterWords":                              {19},
	"TestSyncEchoesItsPath":                            {65},
	"TestOwnWriteFiresBeforeItsReply":                  {76},
	"TestDeleteEvents":                                 {79},
	"TestPersistentAndRecursive":                       {80, 81, 82, 83, 84, 85},
	"TestSetWatches":                                   {86},
	"TestSetWatches2ArmsPersistentOnes":                {87},
	"TestMultiFiresOnceBeforeItsReply":                 {88},
	"TestAuth":                                         {90},
	"statemachine.TestCreateRows":                      {21, 22, 23, 24, 25, 26, 27, 28, 29, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 43, 44, 45, 47},
	"statemachine.TestRow30And31SequenceNumbers":       {30, 31},
	"statemachine.TestRow42DuplicatesAreStoredOnce":    {42},
	"statemachine.TestRow46TruncatedBodies":            {46},
	"statemachine.TestReadRows":                        {48, 49, 50, 51, 52, 77, 78},
	"statemachine.TestRow53MaskedACL":                  {53},
	"statemachine.TestSetAndDeleteRows":                {54, 55, 57, 58, 59, 60, 61, 62, 63, 66, 67},
	"statemachine.TestHardQuotaIsEnforcedIfAsked":      {56},
	"statemachine.TestRow64SetACLChangesAversionOnly":  {64},
	"statemachine.TestMultiRows":                       {68, 69, 70, 72, 73, 75},
	"statemachine.TestRow71MultiRead":                  {71},
	"statemachine.TestRow74QuotaInMulti":               {74},
	"statemachine.TestRow89EventsOfAnEndingSession":    {89},
	"statemachine.TestReadReplies":                     {91},
	"statemachine.TestRow92AuthExpandsToWhatWasProven": {92},
}

// Every row is in exactly one list, every test that is named exists, and those of statemachine name the row.
func TestEveryRowHasATest(t *testing.T) {
	here, there := testsIn(t, "."), testsIn(t, "../statemachine")
	covered := map[int]string{}
	for name, numbers := range rows {
		text := here[name]
		if elsewhere, ok := strings.CutPrefix(name, "statemachine."); ok {
			text = there[elsewhere]
			for _, n := range numbers {
				mark := regexp.MustCompile(fmt.Sprintf(`Row%d\D|And%d\D|row:? %d\D|\{%d, (proto|ops|nil)`, n, n, n, n))
				require.Regexp(t, mark, text, "%s does not name row %d", name, n)
			}
		}
		require.NotEmpty(t, text, "there is no %s", name)
		for _, n := range numbers {
			require.Empty(t, covered[n], "row %d twice", n)
			covered[n] = name
		}
	}
	for n := 1; n <= 92; n++ {
		require.NotEmpty(t, covered[n], "row %d", n)
	}
	require.Len(t, covered, 92)
}

// testsIn returns the text of each test function in a folder.
func testsIn(t *testing.T, dir string) map[string]string {
	fset := token.NewFileSet()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	texts := map[string]string{}
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		source, err := os.ReadFile(dir + "/" + entry.Name())
		require.NoError(t, err)
		file, err := parser.ParseFile(fset, entry.Name(), source, parser.SkipObjectResolution)
		require.NoError(t, err)
		base := fset.File(file.Pos()).Base()
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				texts[f.Name.Name] = string(source[int(f.Pos())-base : int(f.End())-base])
			}
		}
	}
	return texts
}

func TestNewSessionWithAnyPassword(t *testing.T) {
	s := serving(t, nil)
	for _, password := range [][]byte{nil, {}, make([]byte, 99)} {
		c := s.dial()
		c.shake(&proto.ConnectRequest{TimeOut: 4000, Passwd: password, HasReadOnly: true})
		require.NotZero(t, c.SessionID)
		require.Len(t, c.ConnectResponse.Passwd, proto.PasswordBytes)
	}
}

func TestMultiFiresOnceBeforeItsReply(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.create("/p", nil, 0)
	c.get("/p", true)
	c.call(1, proto.OpExists, watch("/p"))
	c.call(2, proto.OpGetChildren, watch("/p"))
	set := proto.MultiOp{Op: proto.OpSetData, Request: &proto.SetDataRequest{Path: "/p", Version: -1}}
	mk := func(path string) proto.MultiOp {
		return proto.MultiOp{Op: proto.OpCreate, Request: &proto.CreateRequest{Path: path, ACL: proto.OpenACL()}}
	}
	multi := func(ops ...proto.MultiOp) {
		h := &proto.RequestHeader{Xid: 3, Op: proto.OpMulti}
		c.write(proto.AppendFrame(nil, h, raw(proto.AppendMulti(nil, ops))))
	}
	multi(set, set, mk("/p/a"), mk("/p/b"))
	require.Equal(t, "NodeDataChanged(/p)", c.event())
	require.Equal(t, "NodeChildrenChanged(/p)", c.event())
	require.EqualValues(t, 3, c.reply().Xid)
	c.get("/p", true)
	multi(set, mk("/p/a"))
	require.EqualValues(t, 3, c.reply().Xid, "a multi that fails fires nothing")
}

// raw is a record that is encoded already.
type raw []byte

func (r raw) Append(dst []byte) []byte   { return append(dst, r...) }
func (r raw) Decode(*proto.Reader) error { return nil }

// What setWatches2 says about watches that stay is armed and nothing is told of the past.
func TestSetWatches2ArmsPersistentOnes(t *testing.T) {
	s := serving(t, nil)
	c := s.connect()
	c.create("/p", nil, 0)
	none := []string{}
	c.send(-8, proto.OpSetWatches2, &proto.SetWatches2{SetWatches: proto.SetWatches{RelativeZxid: 1, DataWatches: none, ExistWatches: none, ChildWatches: none},
		PersistentWatches: []string{"/p", "/gone"}, PersistentRecursiveWatches: []string{"/"}})
	require.Equal(t, proto.ReplyHeader{Xid: -8, Zxid: int64(txn.MakeZxid(1, 3))}, c.reply().ReplyHeader)
	w := s.connect()
	w.create("/p/q", nil, 0)
	require.Equal(t, "NodeCreated(/p/q)", c.event())
	require.Equal(t, "NodeChildrenChanged(/p)", c.event())
}
