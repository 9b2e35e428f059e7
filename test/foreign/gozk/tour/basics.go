package tour

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

func (v *visit) create() error {
	var k checks
	path, err := v.zk.Create(v.at("a"), []byte("one"), 0, openACL)
	k.noError(err, "create")
	k.equal(path, v.at("a"), "path")
	_, err = v.zk.Create(v.at("a"), nil, 0, openACL)
	k.isError(err, zk.ErrNodeExists, "create again")
	_, err = v.zk.Create(v.at("none/a"), nil, 0, openACL)
	k.isError(err, zk.ErrNoNode, "create without parent")
	_, err = v.zk.Create(v.at("b"), nil, 0, nil)
	k.isError(err, zk.ErrInvalidACL, "create without ACL")
	return k.err
}

func (v *visit) read() error {
	var k checks
	data, stat, err := v.zk.Get(v.at("a"))
	k.noError(err, "get")
	k.equal(string(data), "one", "data")
	there, same, err := v.zk.Exists(v.at("a"))
	k.noError(err, "exists")
	k.equal(there, true, "exists")
	k.equal(same, stat, "stat of exists")
	there, _, err = v.zk.Exists(v.at("none"))
	k.noError(err, "exists of a missing one")
	k.equal(there, false, "exists of a missing one")
	_, _, err = v.zk.Get(v.at("none"))
	k.isError(err, zk.ErrNoNode, "get of a missing one")
	if k.err == nil {
		age := time.Since(time.UnixMilli(stat.Ctime)).Abs()
		k.equal(age < 5*time.Minute, true, fmt.Sprintf("ctime near now (off by %v)", age))
	}
	return k.err
}

func (v *visit) update() error {
	var k checks
	stat, err := v.zk.Set(v.at("a"), []byte("three"), 0)
	k.noError(err, "set")
	if k.err != nil {
		return k.err
	}
	k.equal(stat.Version, int32(1), "version")
	k.equal(stat.DataLength, int32(5), "length")
	k.equal(stat.Mzxid > stat.Czxid, true, "mzxid beyond czxid")
	_, err = v.zk.Set(v.at("a"), nil, 0)
	k.isError(err, zk.ErrBadVersion, "set of an old version")
	_, err = v.zk.Set(v.at("none"), nil, -1)
	k.isError(err, zk.ErrNoNode, "set of a missing one")
	data, _, err := v.zk.Get(v.at("a"))
	k.noError(err, "get")
	k.equal(string(data), "three", "data")
	return k.err
}

func (v *visit) values() error {
	var k checks
	for _, want := range [][]byte{{}, {0, 255}, bytes.Repeat([]byte("x"), 1_000_000)} {
		_, err := v.zk.Set(v.at("a"), want, -1)
		k.noError(err, "set")
		got, _, err := v.zk.Get(v.at("a"))
		k.noError(err, "get")
		k.equal(bytes.Equal(got, want), true, "the same value back")
	}
	return k.err
}

func (v *visit) list() error {
	var k checks
	for _, name := range []string{"list", "list/z", "list/x", "list/y"} {
		_, err := v.zk.Create(v.at(name), nil, 0, openACL)
		k.noError(err, "create "+name)
	}
	kids, stat, err := v.zk.Children(v.at("list"))
	k.noError(err, "children")
	if k.err != nil {
		return k.err
	}
	slices.Sort(kids)
	k.equal(kids, []string{"x", "y", "z"}, "children")
	k.equal(stat.NumChildren, int32(3), "numChildren")
	k.equal(stat.Cversion, int32(3), "cversion")
	_, _, err = v.zk.Children(v.at("none"))
	k.isError(err, zk.ErrNoNode, "children of a missing one")
	return k.err
}

func (v *visit) delete() error {
	var k checks
	k.isError(v.zk.Delete(v.at("list"), -1), zk.ErrNotEmpty, "delete with children")
	k.isError(v.zk.Delete(v.at("list/x"), 5), zk.ErrBadVersion, "delete another version")
	k.noError(v.zk.Delete(v.at("list/x"), 0), "delete")
	k.isError(v.zk.Delete(v.at("list/x"), -1), zk.ErrNoNode, "delete again")
	return k.err
}

func (v *visit) sequences() error {
	var k checks
	_, err := v.zk.Create(v.at("seq"), nil, 0, openACL)
	k.noError(err, "create")
	for i := range 3 {
		path, err := v.zk.Create(v.at("seq/n-"), nil, zk.FlagSequence, openACL)
		k.noError(err, "create")
		k.equal(path, v.at(fmt.Sprintf("seq/n-%010d", i)), "path")
	}
	path, err := v.zk.CreateProtectedEphemeralSequential(v.at("seq/p-"), nil, openACL)
	k.noError(err, "protected create")
	k.equal(path[max(0, len(path)-12):], "p-0000000003", "end of the protected path")
	return k.err
}

// pipeline has many requests of one session on the way at once.
func (v *visit) pipeline() error {
	const workers, each = 20, 15
	var k checks
	_, err := v.zk.Create(v.at("pipe"), nil, 0, openACL)
	k.noError(err, "create")
	errs := make(chan error, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for i := range each {
				path := v.at(fmt.Sprintf("pipe/%d-%d", w, i))
				if _, err := v.zk.Create(path, []byte(path), 0, openACL); err != nil {
					errs <- err
					return
				}
				if got, _, err := v.zk.Get(path); err != nil || string(got) != path {
					errs <- fmt.Errorf("get %s: %q, %w", path, got, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		k.noError(err, "worker")
	}
	kids, _, err := v.zk.Children(v.at("pipe"))
	k.noError(err, "children")
	k.equal(len(kids), workers*each, "children")
	return k.err
}

func (v *visit) sync() error {
	var k checks
	_, err := v.zk.Create(v.at("sync"), nil, 0, openACL)
	k.noError(err, "create")
	for i := range 30 {
		want := fmt.Sprint(i)
		_, err = v.zk.Set(v.at("sync"), []byte(want), -1)
		k.noError(err, "set")
		path, err := v.other.Sync(v.at("sync"))
		k.noError(err, "sync")
		k.equal(path, v.at("sync"), "synced path")
		got, _, err := v.other.Get(v.at("sync"))
		k.noError(err, "get")
		k.equal(string(got), want, "data after sync")
	}
	return k.err
}
