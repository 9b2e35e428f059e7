package settings_test

import (
	"context"
	"errors"

	"github.com/zkd-project/zkd/pkg/client"
	"github.com/zkd-project/zkd/pkg/client/recipes/settings"
)

// Change two values together, or none if somebody else was faster.
func Example() {
	resize := func(ctx context.Context, c *client.Client) error {
		for {
			s, err := settings.Load(ctx, c, "/app/settings")
			if err != nil {
				return err
			}
			s.Values["width"], s.Values["height"] = []byte("80"), []byte("25")
			err = s.Save(ctx)
			if !errors.Is(err, settings.ErrChanged) {
				return err
			}
		}
	}
	_ = resize
}
