package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/zkd-project/zkd/internal/env"
	"github.com/zkd-project/zkd/peer"
	"github.com/zkd-project/zkd/snapshot"
	"github.com/zkd-project/zkd/statemachine"
	"github.com/zkd-project/zkd/txn"
	"github.com/zkd-project/zkd/txnlog"
	"github.com/zkd-project/zkd/zab"
)

// runLogDump prints one line per transaction. A file that is damaged is printed as far as it is good, then reported.
func runLogDump(_ context.Context, args []string, out, _ io.Writer) error {
	set := flags("log dump", out)
	batches := set.Bool("batches", false, "print batch headers too")
	if err := parse(set, args); err != nil {
		return err
	}
	if set.NArg() == 0 {
		return &usageError{errors.New("log dump takes at least one file")}
	}
	w := bufio.NewWriter(out)
	defer w.Flush()
	for _, path := range set.Args() {
		h, err := txnlog.ReadSegment(env.OSDisk{}, path, func(b txnlog.BatchHeader, recs []txn.Record) error {
			if *batches {
				fmt.Fprintf(w, "# batch %d at %d: %d records, commit hint %v\n", b.Seq, b.Offset, b.Count, b.Commit)
			}
			for i := range recs {
				if err := dumpRecord(w, &recs[i]); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return corrupt(path, err)
		}
		fmt.Fprintf(w, "# %s: generation %d, cluster %016x, after %v\n", path, h.Generation, h.ClusterID, h.Prev)
	}
	return nil
}

func dumpRecord(w io.Writer, rec *txn.Record) error {
	t, err := rec.Txn()
	if err != nil {
		return err
	}
	body, err := json.Marshal(t.Body)
	if err != nil {
		return err
	}
	if t.Body.Type() == txn.TypeSecret {
		body = []byte(`{"Secret":"(not shown)"}`)
	}
	_, err = fmt.Fprintf(w, "%v %s session %v cxid %d server %d %s %s\n", rec.Zxid, time.UnixMilli(t.Time).UTC().Format(time.RFC3339Nano),
		t.Session, t.Cxid, t.Origin, t.Body.Type(), body)
	return err
}

// runSnapshotDump verifies a snapshot from its first byte to its last and says what it holds.
func runSnapshotDump(_ context.Context, args []string, out, _ io.Writer) error {
	path, err := oneFile("snapshot dump", args, out)
	if err != nil {
		return err
	}
	r, err := snapshot.OpenFile(env.OSDisk{}, path)
	if err != nil {
		return corrupt(path, err)
	}
	defer r.Close()
	head, err := peer.ReadSnapshotHead(r)
	if err != nil {
		return corrupt(path, err)
	}
	m := statemachine.New(statemachine.Config{})
	if err := m.Restore(r); err != nil {
		return corrupt(path, err)
	}
	if _, err := io.Copy(io.Discard, r); err != nil {
		return corrupt(path, err)
	}
	fmt.Fprintf(out, "zxid %v\nchain %016x\ndigest %016x\nznodes %d\nephemerals %d\nsessions %d\ndata bytes %d\n", head.At.Zxid, head.At.Chain,
		m.Digest(), m.NodeCount(), m.EphemeralCount(), m.SessionCount(), m.DataSize())
	for _, e := range head.Table.Ends {
		fmt.Fprintf(out, "epoch %d ends at %v\n", e.Epoch, e.Last)
	}
	return nil
}

// corrupt gives damage its exit code; other errors (no such file) are plain failures. All name the file.
func corrupt(path string, err error) error {
	switch {
	case errors.As(err, new(*txnlog.CorruptError)), errors.As(err, new(*snapshot.CorruptError)):
		return &peer.FatalError{Code: zab.ExitCorrupt, Err: err}
	case errors.Is(err, statemachine.ErrSnapshot), errors.Is(err, statemachine.ErrDigest):
		return &peer.FatalError{Code: zab.ExitCorrupt, Err: fmt.Errorf("%s: %w", path, err)}
	case errors.As(err, new(*fs.PathError)):
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}
