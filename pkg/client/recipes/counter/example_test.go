package counter_test

import (
	"context"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes/counter"
)

func Example() {
	nextInvoice := func(ctx context.Context, c *client.Client) (int64, error) {
		return counter.New(c, "/invoices/number").Add(ctx, 1)
	}
	_ = nextInvoice
}
