// tour.c: the operations of the C client through one member.
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *base;   // the znode of this member's tour
static char path[PATH_MAX_LEN], out[PATH_MAX_LEN];

static const char *at(const char *name) { return join_path(path, base, name); }

static void want_data(zhandle_t *zh, const char *node, const char *want, struct Stat *stat) {
    char got[64] = "";
    int length = sizeof got - 1;
    if (want_rc("get", zoo_get(zh, node, 0, got, &length, stat), ZOK)) {
        got[length > 0 ? length : 0] = 0;
        want_str("data", got, want);
    }
}

// want_same_stat compares field by field: a Stat has padding.
static void want_same_stat(const struct Stat *a, const struct Stat *b) {
    want_int("czxid", a->czxid, b->czxid);
    want_int("mzxid", a->mzxid, b->mzxid);
    want_int("pzxid", a->pzxid, b->pzxid);
    want_int("ctime", a->ctime, b->ctime);
    want_int("mtime", a->mtime, b->mtime);
    want_int("version", a->version, b->version);
    want_int("cversion", a->cversion, b->cversion);
    want_int("aversion", a->aversion, b->aversion);
    want_int("ephemeralOwner", a->ephemeralOwner, b->ephemeralOwner);
    want_int("dataLength", a->dataLength, b->dataLength);
    want_int("numChildren", a->numChildren, b->numChildren);
}

static void creates(zhandle_t *zh, const char *name) {
    step("%s/create", name);
    want_rc("create", open_create(zh, at("a"), "one", 0, out), ZOK);
    want_str("path", out, path);
    want_rc("again", open_create(zh, at("a"), "", 0, NULL), ZNODEEXISTS);
    want_rc("without parent", open_create(zh, at("none/a"), "", 0, NULL), ZNONODE);
    want_rc("control character", open_create(zh, at("b\001"), "", 0, NULL), ZBADARGUMENTS);
    want_rc("no ACL", zoo_create(zh, at("b"), "", 0, &(struct ACL_vector){0}, 0, NULL, 0), ZINVALIDACL);
    done();

    step("%s/create2", name);
    struct Stat stat;
    want_rc("create2",
            zoo_create2(zh, at("b"), "two!", 4, &ZOO_OPEN_ACL_UNSAFE, 0, out, sizeof out, &stat), ZOK);
    want_str("path", out, path);
    want_int("dataLength", stat.dataLength, 4);
    want_int("version", stat.version, 0);
    want_int("mzxid - czxid", stat.mzxid - stat.czxid, 0);
    done();

    step("%s/null-data", name);
    char byte;
    int length = 1;
    want_rc("create", zoo_create(zh, at("null"), NULL, -1, &ZOO_OPEN_ACL_UNSAFE, 0, NULL, 0), ZOK);
    want_rc("get", zoo_get(zh, path, 0, &byte, &length, &stat), ZOK);
    want_int("length of null data", length, -1);
    want_int("dataLength", stat.dataLength, 0);
    done();

    step("%s/sequences", name);
    open_create(zh, at("seq"), "", 0, NULL);
    for (int i = 0; i < 3; i++) {
        char suffix[32];
        snprintf(suffix, sizeof suffix, "seq/n-%010d", i);
        want_rc("create", open_create(zh, at("seq/n-"), "", ZOO_PERSISTENT_SEQUENTIAL, out), ZOK);
        want_str("path", out, at(suffix));
    }
    done();
}

static void reads_and_updates(zhandle_t *zh, const char *name) {
    struct Stat stat, after;
    step("%s/read", name);
    want_data(zh, at("a"), "one", &stat);
    want_rc("exists", zoo_exists(zh, path, 0, &after), ZOK);
    want_same_stat(&after, &stat);
    want_rc("missing", zoo_exists(zh, at("none"), 0, &after), ZNONODE);
    done();

    step("%s/update", name);
    want_rc("set", zoo_set2(zh, at("a"), "three", 5, 0, &after), ZOK);
    want_int("version", after.version, 1);
    want_int("mzxid grew", after.mzxid > stat.mzxid, 1);
    want_rc("old version", zoo_set(zh, path, "", 0, 0), ZBADVERSION);
    want_rc("missing", zoo_set(zh, at("none"), "", 0, -1), ZNONODE);
    want_data(zh, at("a"), "three", &after);
    done();

    step("%s/big-data", name);
    int length = 1000000, got = length;
    char *big = malloc((size_t)length), *back = calloc(1, (size_t)length);
    memset(big, 'x', (size_t)length);
    want_rc("set", zoo_set(zh, at("b"), big, length, -1), ZOK);
    want_rc("get", zoo_get(zh, path, 0, back, &got, &stat), ZOK);
    want_int("length", got, length);
    want_int("difference", memcmp(big, back, (size_t)length), 0);
    free(big);
    free(back);
    done();

    step("%s/list", name);
    struct String_vector kids = {0};
    want_rc("children", zoo_get_children2(zh, at("seq"), 0, &kids, &stat), ZOK);
    want_int("count", kids.count, 3);
    want_int("numChildren", stat.numChildren, 3);
    want_int("cversion", stat.cversion, 3);
    deallocate_String_vector(&kids);
    want_rc("of a missing one", zoo_get_children(zh, at("none"), 0, &kids), ZNONODE);
    done();

    step("%s/delete", name);
    want_rc("with children", zoo_delete(zh, at("seq"), -1), ZNOTEMPTY);
    want_rc("other version", zoo_delete(zh, at("seq/n-0000000000"), 7), ZBADVERSION);
    want_rc("delete", zoo_delete(zh, path, 0), ZOK);
    want_rc("again", zoo_delete(zh, path, 0), ZNONODE);
    done();
}

// watched changes things through other and expects the events at zh.
static void watched(zhandle_t *zh, zhandle_t *other, const char *name) {
    struct Stat stat;
    struct String_vector kids = {0};
    char data[16], kid[PATH_MAX_LEN];
    int length = sizeof data;
    struct events *e = events_new();
    at("w");

    step("%s/watch-exists", name);
    want_rc("exists", zoo_wexists(zh, path, on_event, e, &stat), ZNONODE);
    want_rc("create", open_create(other, path, "", 0, NULL), ZOK);
    want_event(e, ZOO_CREATED_EVENT, path);
    done();

    step("%s/watch-data", name);
    want_rc("get", zoo_wget(zh, path, on_event, e, data, &length, &stat), ZOK);
    want_rc("set", zoo_set(other, path, "new", 3, -1), ZOK);
    want_event(e, ZOO_CHANGED_EVENT, path);
    want_data(zh, path, "new", &stat);
    done();

    step("%s/watch-child", name);
    want_rc("children", zoo_wget_children(zh, path, on_event, e, &kids), ZOK);
    deallocate_String_vector(&kids);
    want_rc("create", open_create(other, join_path(kid, path, "kid"), "", 0, NULL), ZOK);
    want_event(e, ZOO_CHILD_EVENT, path);
    done();

    step("%s/watch-once", name);
    want_rc("set", zoo_set(other, path, "newer", 5, -1), ZOK);
    want_rc("delete", zoo_delete(other, kid, -1), ZOK);
    want_rc("sync", sync_path(zh, path), ZOK);
    want_no_event(e);
    done();

    step("%s/watch-deleted", name);
    want_rc("exists", zoo_wexists(zh, path, on_event, e, &stat), ZOK);
    want_rc("delete", zoo_delete(other, path, -1), ZOK);
    want_event(e, ZOO_DELETED_EVENT, path);
    done();
    events_free(e);
}

// extras need requests beyond those of ZooKeeper 3.4.
static void extras(zhandle_t *zh, const char *name) {
    struct Stat stat;
    char data[16];
    struct events *e = events_new();
    step("%s/container", name);
    want_rc("create", open_create(zh, at("box"), "", ZOO_CONTAINER, NULL), ZOK);
    want_rc("exists", zoo_exists(zh, path, 0, &stat), ZOK);
    want_int("ephemeralOwner", stat.ephemeralOwner, 0);
    want_rc("delete", zoo_delete(zh, path, 0), ZOK);
    done();

    step("%s/watch-removed", name);
    want_rc("create", open_create(zh, at("unwatched"), "", 0, NULL), ZOK);
    want_rc("get", zoo_wget(zh, path, on_event, e, data, &(int){sizeof data}, &stat), ZOK);
    want_rc("remove", zoo_remove_watches(zh, path, ZWATCHTYPE_DATA, on_event, e, 0), ZOK);
    want_rc("again", zoo_remove_watches(zh, path, ZWATCHTYPE_DATA, on_event, e, 0), ZNOWATCHER);
    want_rc("set", zoo_set(zh, path, "newest", 6, -1), ZOK);
    want_no_event(e);
    done();
    events_free(e);
}

static void ephemerals(zhandle_t *zh, zhandle_t *other, const char *name, const char *member) {
    step("%s/ephemeral", name);
    struct Stat stat;
    struct events *e = events_new();
    zhandle_t *owner = session(member, 10000, NULL);
    if (owner != NULL) {
        want_rc("create", open_create(owner, at("e"), "", ZOO_EPHEMERAL, NULL), ZOK);
        want_rc("exists", zoo_exists(zh, path, 0, &stat), ZOK);
        want_int("owner", stat.ephemeralOwner, zoo_client_id(owner)->client_id);
        char kid[PATH_MAX_LEN];
        want_rc("child", open_create(zh, join_path(kid, path, "kid"), "", 0, NULL), ZNOCHILDRENFOREPHEMERALS);
        want_rc("sync", sync_path(other, path), ZOK);
        want_rc("watch", zoo_wexists(other, path, on_event, e, &stat), ZOK);
        want_rc("close", zookeeper_close(owner), ZOK);
        want_event(e, ZOO_DELETED_EVENT, path);
        want_rc("afterwards", zoo_exists(other, path, 0, &stat), ZNONODE);
    }
    done();
    events_free(e);
}

static void multis(zhandle_t *zh, const char *name) {
    char t[PATH_MAX_LEN], one[PATH_MAX_LEN], seq[PATH_MAX_LEN], made[PATH_MAX_LEN];
    join_path(t, base, "t");
    join_path(one, t, "one");
    join_path(seq, t, "s-");
    zoo_op_t ops[5];
    zoo_op_result_t results[5];
    struct Stat stat;

    step("%s/multi", name);
    zoo_create_op_init(&ops[0], t, "0", 1, &ZOO_OPEN_ACL_UNSAFE, 0, out, sizeof out);
    zoo_create_op_init(&ops[1], one, "1", 1, &ZOO_OPEN_ACL_UNSAFE, 0, out, sizeof out);
    zoo_set_op_init(&ops[2], t, "2", 1, 0, &stat);
    zoo_create_op_init(&ops[3], seq, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT_SEQUENTIAL, made, sizeof made);
    zoo_delete_op_init(&ops[4], one, 0);
    want_rc("multi", zoo_multi(zh, 5, ops, results), ZOK);
    for (int i = 0; i < 5; i++) {
        want_rc("result", results[i].err, ZOK);
    }
    want_int("version", stat.version, 1);
    strcat(seq, "0000000001");
    want_str("sequential path", made, seq);
    want_data(zh, t, "2", &stat);
    done();

    step("%s/multi-refused", name);
    zoo_create_op_init(&ops[0], one, "", 0, &ZOO_OPEN_ACL_UNSAFE, 0, out, sizeof out);
    zoo_check_op_init(&ops[1], t, 9);
    zoo_delete_op_init(&ops[2], t, -1);
    want_rc("multi", zoo_multi(zh, 3, ops, results), ZBADVERSION);
    want_rc("before", results[0].err, ZOK);
    want_rc("failing", results[1].err, ZBADVERSION);
    want_rc("behind", results[2].err, ZRUNTIMEINCONSISTENCY);
    want_rc("nothing done", zoo_exists(zh, one, 0, &stat), ZNONODE);
    done();
}

static void acls(zhandle_t *zh, const char *name, const char *member) {
    step("%s/digest", name);
    struct Stat stat;
    char data[16];
    zhandle_t *alice = session(member, 10000, NULL);
    if (alice != NULL) {
        want_rc("auth", auth(alice, "digest", "alice:secret"), ZOK);
        at("acl");
        want_rc("create", zoo_create(alice, path, "private", 7, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0), ZOK);
        want_data(alice, path, "private", &stat);
        want_rc("get by another", zoo_get(zh, path, 0, data, &(int){sizeof data}, &stat), ZNOAUTH);
        want_rc("set by another", zoo_set(zh, path, "", 0, -1), ZNOAUTH);

        struct ACL entries[2] = {{ZOO_PERM_READ, ZOO_ANYONE_ID_UNSAFE}, {ZOO_PERM_ALL, ZOO_AUTH_IDS}};
        struct ACL_vector list = {2, entries}, got = {0};
        want_rc("set_acl", zoo_set_acl(alice, path, 0, &list), ZOK);
        want_rc("old aversion", zoo_set_acl(alice, path, 0, &list), ZBADVERSION);
        want_data(zh, path, "private", &stat);
        want_rc("get_acl", zoo_get_acl(alice, path, &got, &stat), ZOK);
        if (want_int("entries", got.count, 2)) {
            // Base64 of the SHA-1 of alice:secret, as the digest scheme stores it.
            want_str("own id", got.data[1].id.id, "alice:aYXlLOpEooaV1cRAvUL1fp9Qt7E=");
        }
        deallocate_ACL_vector(&got);
        want_rc("get_acl by another", zoo_get_acl(zh, path, &got, &stat), ZOK);
        if (want_int("entries", got.count, 2)) {
            want_str("masked id", got.data[1].id.id, "alice:x");
        }
        deallocate_ACL_vector(&got);
        want_int("aversion", stat.aversion, 1);
        zookeeper_close(alice);
    }
    done();

    step("%s/acl-invalid", name);
    want_rc("auth without an id",
            zoo_create(zh, at("bad"), "", 0, &ZOO_CREATOR_ALL_ACL, 0, NULL, 0), ZINVALIDACL);
    done();

    step("%s/auth-refused", name);
    zhandle_t *eve = session(member, 10000, NULL);
    if (eve != NULL) {
        want_rc("auth", auth(eve, "nosuch", "x:y"), ZAUTHFAILED);
        want_int("in AUTH_FAILED", state_within(eve, ZOO_AUTH_FAILED_STATE, 5000), 1);
        zookeeper_close(eve);
    }
    done();
}

static void synced(zhandle_t *zh, zhandle_t *other, const char *name) {
    step("%s/sync", name);
    struct Stat stat;
    want_rc("create", open_create(zh, at("sync"), "", 0, NULL), ZOK);
    for (int i = 0; i < 30; i++) {
        char value[16];
        int n = snprintf(value, sizeof value, "%d", i);
        want_rc("set", zoo_set(zh, path, value, n, -1), ZOK);
        want_rc("sync", sync_path(other, path), ZOK);
        want_data(other, path, value, &stat);
    }
    done();
}

void tour_member(const char *name, const char *member, const char *other_member, const char *node) {
    base = node;
    step("%s/connect", name);
    zhandle_t *zh = session(member, 10000, NULL);
    zhandle_t *other = zh != NULL ? session(other_member, 10000, NULL) : NULL;
    if (other != NULL) {
        want_int("negotiated timeout", zoo_recv_timeout(zh), 10000);
        want_rc("create", open_create(zh, base, "", 0, NULL), ZOK);
        want_rc("sync", sync_path(other, base), ZOK);
    }
    done();
    if (other != NULL) {
        creates(zh, name);
        reads_and_updates(zh, name);
        watched(zh, other, name);
        ephemerals(zh, other, name, member);
        multis(zh, name);
        acls(zh, name, member);
        synced(zh, other, name);
        if (getenv("ZKD_FOREIGN_CORE") == NULL) {
            extras(zh, name);
        }
        step("%s/close", name);
        want_rc("close", zookeeper_close(other), ZOK);
        want_rc("close", zookeeper_close(zh), ZOK);
        done();
    } else if (zh != NULL) {
        zookeeper_close(zh);
    }
}
