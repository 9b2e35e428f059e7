package tour

import (
	"github.com/go-zookeeper/zk"
)

// The changes come from the other client, through another member if there is
// one; the events must reach this one.

func (v *visit) watchExists() error {
	var k checks
	there, _, events, err := v.zk.ExistsW(v.at("w"))
	k.noError(err, "watch")
	k.equal(there, false, "exists")
	_, err = v.other.Create(v.at("w"), nil, 0, openACL)
	k.noError(err, "create")
	k.event(events, zk.EventNodeCreated, v.at("w"))
	return k.err
}

func (v *visit) watchData() error {
	var k checks
	_, _, events, err := v.zk.GetW(v.at("w"))
	k.noError(err, "watch")
	_, err = v.other.Set(v.at("w"), []byte("new"), -1)
	k.noError(err, "set")
	k.event(events, zk.EventNodeDataChanged, v.at("w"))
	data, _, err := v.zk.Get(v.at("w"))
	k.noError(err, "get")
	k.equal(string(data), "new", "data after its event")
	return k.err
}

func (v *visit) watchChild() error {
	var k checks
	_, _, events, err := v.zk.ChildrenW(v.at("w"))
	k.noError(err, "watch")
	_, err = v.other.Create(v.at("w/kid"), nil, 0, openACL)
	k.noError(err, "create")
	k.event(events, zk.EventNodeChildrenChanged, v.at("w"))
	kids, _, err := v.zk.Children(v.at("w"))
	k.noError(err, "children")
	k.equal(kids, []string{"kid"}, "children after their event")
	return k.err
}

func (v *visit) watchOnce() error {
	var k checks
	_, _, events, err := v.zk.GetW(v.at("w"))
	k.noError(err, "watch")
	for range 2 {
		_, err = v.other.Set(v.at("w"), nil, -1)
		k.noError(err, "set")
	}
	_, err = v.zk.Sync(v.at("w"))
	k.noError(err, "sync")
	k.event(events, zk.EventNodeDataChanged, v.at("w"))
	if k.err != nil {
		return k.err
	}
	if _, again := <-events; again { // the client closes the channel behind the one event
		k.equal(again, false, "a second event")
	}
	k.noError(v.other.Delete(v.at("w/kid"), -1), "delete")
	return k.err
}

func (v *visit) watchDeleted() error {
	var k checks
	_, _, events, err := v.zk.ExistsW(v.at("w"))
	k.noError(err, "watch")
	_, err = v.zk.Sync(v.at("w"))
	k.noError(err, "sync")
	k.noError(v.other.Delete(v.at("w"), -1), "delete")
	k.event(events, zk.EventNodeDeleted, v.at("w"))
	return k.err
}

// ephemeral sees a znode of another session come, and go with the session.
func (v *visit) ephemeral() error {
	owner, err := v.connect(v.server)
	if err != nil {
		return err
	}
	defer owner.Close()
	var k checks
	path := v.at("e")
	_, err = owner.Create(path, nil, zk.FlagEphemeral, openACL)
	k.noError(err, "create")
	_, err = v.other.Sync(path)
	k.noError(err, "sync")
	there, stat, events, err := v.other.ExistsW(path)
	k.noError(err, "watch")
	k.equal(there, true, "exists")
	if k.err != nil {
		return k.err
	}
	k.equal(stat.EphemeralOwner, owner.SessionID(), "owner")
	_, err = owner.Create(path+"/kid", nil, 0, openACL)
	k.isError(err, zk.ErrNoChildrenForEphemerals, "child of an ephemeral")
	owner.Close()
	k.event(events, zk.EventNodeDeleted, path)
	there, _, err = v.other.Exists(path)
	k.noError(err, "exists")
	k.equal(there, false, "exists afterwards")
	return k.err
}
