package peer

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/zkd-project/zkd/zab"
)

// mesh keeps one election connection to every other server, all the time: no dialling when a leader has just died (§5.7). The server
// with the larger id dials; the smaller one asks for it by a hello and a close. Every peer has its own goroutines, so
// that no dial to a dead one delays another (K72).
type mesh struct {
	p     *Peer
	peers map[zab.ServerID]*meshPeer // not changed after newMesh
}

var errReplaced = errors.New("its connection replaces the one that stands")

// meshPeer is one other server. The slot holds the latest notification that it has not been sent.
type meshPeer struct {
	m    *mesh
	id   zab.ServerID
	addr string

	mu    sync.Mutex
	conn  net.Conn // the current one, nil while down
	hello *zab.Hello
	slot  *zab.Notification
	wake  chan struct{} // writer: slot filled or conn replaced
	kick  chan struct{} // dialler: try now
}

// meshAlive is how often an idle mesh connection says something, meshSilence how long it may be silent.
func (p *Peer) meshAlive() time.Duration   { return p.cfg.Core.HbTimeout / 2 }
func (p *Peer) meshSilence() time.Duration { return 3 * p.cfg.Core.HbTimeout }

func newMesh(p *Peer) *mesh {
	m := &mesh{p: p, peers: map[zab.ServerID]*meshPeer{}}
	for _, s := range p.cfg.Core.Members.Servers {
		if s.ID != p.cfg.Core.Self {
			m.peers[s.ID] = &meshPeer{m: m, id: s.ID, addr: s.ElectionAddr, wake: make(chan struct{}, 1), kick: make(chan struct{}, 1)}
		}
	}
	return m
}

// start runs the diallers; they end with ctx.
func (m *mesh) start(ctx context.Context) {
	for _, mp := range m.peers {
		m.p.wg.Go(func() { mp.dialLoop(ctx) })
	}
}

// tell fills the slot of a peer.
func (m *mesh) tell(to zab.ServerID, n zab.Notification) {
	mp := m.peers[to]
	if mp == nil {
		return
	}
	mp.mu.Lock()
	mp.slot = &n
	mp.mu.Unlock()
	poke(mp.wake)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// dialLoop keeps trying while there is no connection, with a delay that doubles; a kick tries at once.
func (mp *meshPeer) dialLoop(ctx context.Context) {
	p := mp.m.p
	dials := p.cfg.Core.Self > mp.id
	delay := p.cfg.Core.ConnectRetry
	for ctx.Err() == nil {
		if !mp.up() {
			err := mp.dial(ctx, dials)
			if err == nil {
				delay = p.cfg.Core.ConnectRetry
			} else {
				var r *refusedError
				refused := errors.As(err, &r)
				mp.downUnlessUp(zab.MeshDown{Peer: mp.id, Active: wasActive(err), Foreign: refused && r.code == zab.ByeWrongCluster})
				if refused {
					p.warnPeer(zab.NoteRefused, mp.id, err)
				}
			}
		}
		wait := delay
		if !dials {
			wait = max(wait, p.cfg.Core.ElectionGap) // asking is the fallback: the other side dials by itself
		}
		if mp.up() {
			wait = time.Hour // until kicked
		}
		select {
		case <-ctx.Done():
		case <-mp.kick:
			delay = p.cfg.Core.ConnectRetry
		case <-time.After(wait):
			delay = min(2*delay, p.cfg.Core.NotifyMax)
		}
	}
}

// downUnlessUp tells the core of a dial that failed, unless the other side's connection came meanwhile: its MeshUp was told, and nothing
// would take a MeshDown behind it back.
func (mp *meshPeer) downUnlessUp(ev zab.MeshDown) {
	mp.mu.Lock()
	defer mp.mu.Unlock()
	if mp.conn == nil {
		mp.m.p.inbox.put(ev)
	}
}

func (mp *meshPeer) up() bool {
	mp.mu.Lock()
	defer mp.mu.Unlock()
	return mp.conn != nil
}

// dial makes a connection and, if it is ours to make, puts it to use; otherwise it only asks.
func (mp *meshPeer) dial(ctx context.Context, use bool) error {
	p := mp.m.p
	dctx, cancel := context.WithTimeout(ctx, p.cfg.Core.DialTimeout)
	defer cancel()
	nc, err := p.cfg.Net.Dial(dctx, mp.addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	br := bufio.NewReaderSize(nc, 4<<10)
	h := p.hello(zab.ForElection, mp.id)
	if !use {
		defer nc.Close()
		defer stop()
		nc.SetDeadline(time.Now().Add(helloLimit))
		_, err := nc.Write(zab.AppendFrame(nil, 0, h))
		return err
	}
	if err := p.greet(nc, br, h); err != nil {
		stop()
		nc.Close()
		return err
	}
	// For the order of connections it is our own hello that counts: both ends compare the dialler's.
	if !mp.adopt(nc, h) {
		stop()
		nc.Close()
		return nil
	}
	p.wg.Go(func() { mp.write(nc) })
	p.wg.Go(func() { defer stop(); mp.read(nc, br) })
	return nil
}

// accept handles a connection that came in on the election port.
func (m *mesh) accept(ctx context.Context, nc net.Conn) {
	stop := context.AfterFunc(ctx, func() { nc.Close() })
	defer stop()
	br := bufio.NewReaderSize(nc, 4<<10)
	h, err := m.p.welcome(nc, br, zab.ForElection)
	if err != nil {
		m.p.warnStranger("election", nc, err)
		nc.Close()
		var r *refusedError
		if h != nil && errors.As(err, &r) && r.code == zab.ByeWrongCluster {
			m.peers[h.Self].foreign()
		}
		return
	}
	mp := m.peers[h.Self]
	if h.Self < m.p.cfg.Core.Self { // it asks us to dial
		nc.Close()
		if !mp.up() {
			poke(mp.kick)
		}
		return
	}
	if !mp.adopt(nc, h) {
		nc.Close()
		return
	}
	m.p.wg.Go(func() { mp.write(nc) })
	mp.read(nc, br)
}

// adopt makes nc the connection to the peer if it is newer than the one there.
func (mp *meshPeer) adopt(nc net.Conn, h *zab.Hello) bool {
	mp.mu.Lock()
	if mp.conn != nil {
		if !h.Replaces(mp.hello) {
			mp.mu.Unlock()
			return false
		}
		if h.Directory != mp.hello.Directory {
			mp.m.p.warnPeer("a process with another data folder takes this server's place; are there two with one myid?", mp.id, errReplaced)
		}
		mp.conn.Close()
		mp.m.p.inbox.put(zab.MeshDown{Peer: mp.id, Active: true})
	}
	mp.conn, mp.hello = nc, h
	mp.slot = nil // said to an older connection; the core speaks again at MeshUp
	mp.m.p.inbox.put(zab.MeshUp{Peer: mp.id})
	mp.mu.Unlock()
	return true
}

func (mp *meshPeer) write(nc net.Conn) {
	defer nc.Close()
	p := mp.m.p
	var buf []byte
	alive := time.NewTicker(p.meshAlive())
	defer alive.Stop()
	for {
		var n *zab.Notification
		mp.mu.Lock()
		current := mp.conn == nc
		if current {
			n, mp.slot = mp.slot, nil
		}
		mp.mu.Unlock()
		if !current {
			poke(mp.wake) // for the writer that came after us, if the token was its
			return
		}
		if n != nil {
			buf = zab.AppendFrame(buf[:0], 0, &zab.Notify{Notification: *n})
			if err := writeAll(nc, buf); err != nil {
				return
			}
		}
		select {
		case <-mp.wake:
		case <-p.stopped:
			return
		case <-alive.C:
			if err := writeAll(nc, zab.AppendFrame(buf[:0], 0, &zab.Ping{})); err != nil {
				return
			}
		}
	}
}

func (mp *meshPeer) read(nc net.Conn, br *bufio.Reader) {
	p := mp.m.p
	var err error
	for {
		nc.SetReadDeadline(time.Now().Add(p.meshSilence()))
		var pk zab.Packet
		if pk, _, err = readFrame(br, 64<<10, nil); err != nil {
			break
		}
		if n, ok := pk.(*zab.Notify); ok && !mp.deliver(nc, n) {
			break
		}
	}
	nc.Close()
	mp.mu.Lock()
	if mp.conn == nc {
		mp.conn, mp.hello = nil, nil
		p.inbox.put(zab.MeshDown{Peer: mp.id, Active: wasActive(err)})
	}
	mp.mu.Unlock()
	poke(mp.wake)
	poke(mp.kick)
}

// foreign tells the core that a member of another cluster speaks for the peer, unless the peer itself is connected.
func (mp *meshPeer) foreign() {
	mp.mu.Lock()
	defer mp.mu.Unlock()
	if mp.conn == nil {
		mp.m.p.inbox.put(zab.MeshDown{Peer: mp.id, Foreign: true})
	}
}

// deliver hands a notification to the core unless the connection was replaced.
func (mp *meshPeer) deliver(nc net.Conn, n *zab.Notify) bool {
	mp.mu.Lock()
	defer mp.mu.Unlock()
	if mp.conn != nc {
		return false
	}
	mp.m.p.inbox.put(zab.Heard{From: mp.id, Notification: n.Notification})
	return true
}
