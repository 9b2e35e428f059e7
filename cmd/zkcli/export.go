package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/zkd-project/zkd/proto"
)

func export(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	records, skipped, err := snapshotOf(ctx, sh, sh.c, a.path())
	if err != nil {
		return res, err
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(heading{exportFormat, a.path(), len(records)}); err != nil {
		return res, err
	}
	for i := range records {
		if err := enc.Encode(&records[i]); err != nil {
			return res, err
		}
	}
	res.field("exported", len(records))
	res.field("skipped", skipped)
	if file := a.arg(1); file != "" && file != "-" {
		res.note = "Exported " + plural(int64(len(records)), "node") + skippedNote(skipped)
		return res, writeFile(ctx, file, []byte(b.String()))
	}
	res.text, res.asIs = b.String(), true
	return res, nil
}

// readExport reads and checks a whole export before anything is done with it.
func readExport(in io.Reader, name string) ([]record, error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 64<<20)
	var head heading
	if !lines.Scan() || json.Unmarshal(lines.Bytes(), &head) != nil || head.Format != exportFormat {
		return nil, errors.Join(fmt.Errorf("%s is no export of zkcli", name), lines.Err())
	}
	var records []record
	known := map[string]bool{}
	for n := 2; lines.Scan(); n++ {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		if proto.ValidatePath(r.Path) != nil || known[r.Path] || len(known) > 0 && !known[proto.Parent(r.Path)] {
			return nil, fmt.Errorf("%s, line %d: %q is no path, or there twice, or before its parent", name, n, r.Path)
		}
		if _, err := r.acl(); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", name, n, err)
		}
		known[r.Path] = true
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(records) != head.Nodes {
		return nil, fmt.Errorf("%s was cut off: it has %d of %s", name, len(records), plural(int64(head.Nodes), "node"))
	}
	return records, nil
}

// exported reads the export in a file, or on standard input for "-" and "".
func (sh *shell) exported(ctx context.Context, file string) ([]record, error) {
	if file == "" || file == "-" {
		return readExport(sh.data, "standard input")
	}
	text, err := readFile(ctx, file)
	if err != nil {
		return nil, err
	}
	return readExport(bytes.NewReader(text), file)
}

func importTree(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	records, err := sh.exported(ctx, a.arg(1))
	if err != nil {
		return res, err
	}
	if err := plant(ctx, sh, sh.c, a.path(), records, planOf(a)); err != nil {
		return res, err
	}
	res.field("imported", len(records))
	res.note = "Imported " + plural(int64(len(records)), "node") + "\n"
	return res, nil
}
