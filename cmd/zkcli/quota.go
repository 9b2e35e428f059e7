package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/zkd-project/zkd/pkg/client"
)

// limits are the letters of the four limits and where each one is.
func limits(q *client.Quota) map[string]*int64 {
	return map[string]*int64{"n": &q.Count, "b": &q.Bytes, "N": &q.CountHard, "B": &q.BytesHard}
}

var noQuota = client.Quota{Count: client.NoLimit, Bytes: client.NoLimit, CountHard: client.NoLimit, BytesHard: client.NoLimit}

func quotaFields(q client.Quota) map[string]any {
	return map[string]any{"count": q.Count, "bytes": q.Bytes, "countHardLimit": q.CountHard, "byteHardLimit": q.BytesHard}
}

func listQuota(ctx context.Context, sh *shell, a *arguments) (result, error) {
	res := result{note: "absolute path is " + client.QuotaPath(a.path()) + "/zookeeper_limits\n"}
	limit, used, err := sh.c.GetQuota(ctx, a.path())
	if errors.Is(err, client.ErrNoNode) {
		return res, spoken("quota for " + a.path() + " does not exist.")
	}
	if err != nil {
		return res, err
	}
	res.field("limits", quotaFields(limit))
	res.field("usage", quotaFields(used))
	res.text = "Output quota for " + a.path() + " " + limit.String() +
		fmt.Sprintf("\nOutput stat for %s count=%d,bytes=%d\n", a.path(), used.Count, used.Bytes)
	return res, nil
}

func setQuota(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	if len(a.values) == 0 {
		return res, wrongUsage("setquota", "Missing required option: [-n num soft quota, -b bytes soft quota, -N num hard quota, -B bytes hard quota]")
	}
	limit, _, err := sh.c.GetQuota(ctx, a.path())
	switch {
	case errors.Is(err, client.ErrNoNode):
		limit = noQuota
	case err != nil:
		return res, err
	}
	for letter, at := range limits(&limit) {
		*at = a.number(letter, *at)
	}
	if err := sh.c.SetQuota(ctx, a.path(), limit); err != nil {
		return res, err
	}
	res.field("limits", quotaFields(limit))
	if _, used, err := sh.c.GetQuota(ctx, a.path()); err == nil {
		res.text = quotaWarning("count", limit.Count, limit.CountHard, used.Count) + quotaWarning("bytes", limit.Bytes, limit.BytesHard, used.Bytes)
	}
	return res, nil
}

// quotaWarning speaks up if there is more than a limit allows already.
func quotaWarning(what string, soft, hard, used int64) string {
	if soft >= 0 && soft < used || hard >= 0 && hard < used {
		return fmt.Sprintf("[Warning]: the %s quota you create is less than the existing %s:%d\n", what, what, used)
	}
	return ""
}

func delQuota(ctx context.Context, sh *shell, a *arguments) (result, error) {
	var res result
	limit, _, err := sh.c.GetQuota(ctx, a.path())
	if errors.Is(err, client.ErrNoNode) {
		res.text = "Quota does not exist for " + a.path() + "\n"
		res.field("deleted", false)
		return res, nil
	}
	if err != nil {
		return res, err
	}
	res.field("deleted", true)
	if len(a.values) == 0 {
		return res, sh.c.DeleteQuota(ctx, a.path())
	}
	for letter, at := range limits(&limit) {
		if a.has(letter) {
			*at = client.NoLimit
		}
	}
	return res, sh.c.SetQuota(ctx, a.path(), limit)
}
