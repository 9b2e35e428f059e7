// tour.js HOST:PORT,HOST:PORT,...
//
// A tour with the Node client node-zookeeper-client, through each member. It speaks the protocol of ZooKeeper 3.4.
'use strict';

const zookeeper = require('node-zookeeper-client');

const PATIENCE = 15000;
const { CreateMode, Exception, Event, ACL, Permission, Id } = zookeeper;

let passed = 0;
let failed = 0;

// within gives up on a promise that does not settle.
function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not within ${PATIENCE} ms: ${what}`)), PATIENCE);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

async function check(name, body) {
  try {
    await within(body(), name);
    passed++;
    console.log(`ok node ${name}`);
  } catch (err) {
    failed++;
    console.log(`FAIL node ${name}: ${err}`);
  }
}

function equal(want, got) {
  const [w, g] = [JSON.stringify(want), JSON.stringify(got)];
  if (w !== g) throw new Error(`want ${w}, got ${g}`);
}

// call makes a promise of a method that takes a callback last.
function call(client, method, ...args) {
  return within(new Promise((resolve, reject) => {
    client[method](...args, (err, ...results) => (err ? reject(err) : resolve(results)));
  }), method);
}

async function refused(code, promise) {
  try {
    await promise;
  } catch (err) {
    equal(code, err.getCode ? err.getCode() : String(err));
    return;
  }
  throw new Error(`want error ${code}, got an answer`);
}

function open(connect) {
  const client = zookeeper.createClient(connect, { sessionTimeout: 20000, retries: 1 });
  const connected = new Promise((resolve) => client.once('connected', resolve));
  client.connect();
  return within(connected, `connect to ${connect}`).then(() => client);
}

// events collects what a watcher is told.
function events() {
  const queue = [];
  const waiting = [];
  const watcher = (e) => (waiting.length ? waiting.shift()(e) : queue.push(e));
  watcher.next = async (type, path) => {
    const e = await within(queue.length ? queue.shift() : new Promise((resolve) => waiting.push(resolve)), `event of ${path}`);
    equal([type, path], [e.getType(), e.getPath()]);
  };
  return watcher;
}

async function eventually(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not within ${PATIENCE} ms: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function tour(prefix, member, other) {
  const root = `/node-${process.hrtime.bigint()}`;
  const one = (name, body) => check(`${prefix}/${name}`, body);
  let zk;
  let second;
  await one('connect', async () => {
    zk = await open(member);
    second = await open(other);
    equal([root], await call(zk, 'create', root, Buffer.from('0')));
    equal(8, zk.getSessionId().length);
  });
  await one('create-read-update-delete', async () => {
    const p = `${root}/a`;
    await call(zk, 'create', p, Buffer.from('1'));
    const [data, stat] = await call(zk, 'getData', p);
    equal(['1', 0], [data.toString(), stat.version]);
    equal(1, (await call(zk, 'setData', p, Buffer.from('2'), 0))[0].version);
    await call(zk, 'create', `${p}/b`);
    equal([['b']], [(await call(zk, 'getChildren', p))[0]]);
    await refused(Exception.NOT_EMPTY, call(zk, 'remove', p, -1));
    await call(zk, 'remove', `${p}/b`, 0);
    equal(null, (await call(zk, 'exists', `${p}/b`))[0] || null);
  });
  await one('errors', async () => {
    await refused(Exception.NODE_EXISTS, call(zk, 'create', root));
    await refused(Exception.NO_NODE, call(zk, 'getData', `${root}/none`));
    await refused(Exception.BAD_VERSION, call(zk, 'setData', root, Buffer.from('x'), 9));
    await refused(Exception.BAD_ARGUMENTS, call(zk, 'remove', '/zookeeper', -1));
  });
  await one('watches', async () => {
    const p = `${root}/w`;
    const seen = events();
    await call(zk, 'exists', p, seen);
    await call(second, 'create', p, Buffer.from('1'));
    await seen.next(Event.NODE_CREATED, p);
    await call(zk, 'getData', p, seen);
    await call(zk, 'getChildren', p, seen);
    await call(second, 'setData', p, Buffer.from('2'), -1);
    await seen.next(Event.NODE_DATA_CHANGED, p);
    await call(second, 'create', `${p}/c`);
    await seen.next(Event.NODE_CHILDREN_CHANGED, p);
    await call(zk, 'getData', `${p}/c`, seen);
    await call(second, 'remove', `${p}/c`, -1);
    await seen.next(Event.NODE_DELETED, `${p}/c`);
  });
  await one('sequence-and-ephemerals', async () => {
    const owner = await open(other);
    const p = `${root}/e`;
    await call(zk, 'create', p);
    const made = [];
    for (let i = 0; i < 3; i++) {
      made.push(...await call(owner, 'create', `${p}/s-`, Buffer.from(''), CreateMode.EPHEMERAL_SEQUENTIAL));
    }
    equal([0, 1, 2].map((i) => `${p}/s-000000000${i}`), made);
    await refused(Exception.NO_CHILDREN_FOR_EPHEMERALS, call(owner, 'create', `${made[0]}/x`));
    await eventually('three seen', async () => (await call(zk, 'getChildren', p))[0].length === 3);
    owner.close();
    await eventually('gone with the session', async () => (await call(zk, 'getChildren', p))[0].length === 0);
  });
  await one('transaction', async () => {
    const p = `${root}/t`;
    const commit = (t) => within(new Promise((resolve, reject) => t.commit((err, r) => (err ? reject(err) : resolve(r)))), 'commit');
    await commit(zk.transaction().create(p, Buffer.from('1')).setData(p, Buffer.from('2'), 0).check(p, 1).create(`${p}/c`));
    equal('2', (await call(zk, 'getData', p))[0].toString());
    await refused(Exception.BAD_VERSION, commit(zk.transaction().remove(`${p}/c`, -1).check(p, 7)));
    equal(1, (await call(zk, 'getChildren', p))[0].length);
  });
  await one('acls', async () => {
    const p = `${root}/acl`;
    second.addAuthInfo('digest', Buffer.from('bob:secret'));
    await call(zk, 'create', p, Buffer.from('x'), [new ACL(Permission.ALL, new Id('digest', 'bob:fyVmFCwVbTJYrznoSu1koqYEYF0='))]);
    await refused(Exception.NO_AUTH, call(zk, 'getData', p));
    await eventually('bob may', async () => {
      try {
        return (await call(second, 'getData', p))[0].toString() === 'x';
      } catch (err) {
        return false;
      }
    });
    await call(second, 'setACL', p, [new ACL(Permission.READ, new Id('world', 'anyone'))], 0);
    await eventually('everyone may', async () => {
      try {
        return (await call(zk, 'getData', p))[0].toString() === 'x';
      } catch (err) {
        return false;
      }
    });
    equal(1, (await call(zk, 'getACL', p))[0].length);
  });
  await one('pipeline', async () => {
    const p = `${root}/p`;
    await call(zk, 'create', p);
    const names = await Promise.all(Array.from({ length: 300 }, () => call(zk, 'create', `${p}/s-`, Buffer.from(''), CreateMode.PERSISTENT_SEQUENTIAL)));
    equal(names.map((_, i) => `${p}/s-${String(i).padStart(10, '0')}`), names.map(([n]) => n));
  });
  await one('large-data', async () => {
    const big = Buffer.alloc(900000, 7);
    await call(zk, 'create', `${root}/big`, big);
    equal(true, (await call(zk, 'getData', `${root}/big`))[0].equals(big));
  });
  await one('close', async () => {
    for (const c of [zk, second]) {
      const ended = new Promise((resolve) => c.once('disconnected', resolve));
      c.close();
      await within(ended, 'disconnected');
    }
  });
}

async function main() {
  const members = process.argv[2].split(',');
  for (let i = 0; i < members.length; i++) {
    await tour(`m${i}`, members[i], members[(i + 1) % members.length]);
  }
  console.log(`${passed} passed, ${failed} failed`);
  process.exit(failed === 0 ? 0 : 1);
}

main();
