package main

import (
	"context"
	"time"

	shoal "shoal/sdk/go"
	"shoal/test/bombs"
)

// bombLength is how long a neighbour is measured beside each bomb.
const bombLength = 10 * time.Second

// neighbours is what a neighbour notices of sandboxes that take all they can get.
type neighbours struct {
	Quiet bombs.Figures   `json:"quiet"`
	Bombs []bombs.Outcome `json:"bombs"`
}

// measureNeighbours sets off one bomb after the other beside a sandbox.
func measureNeighbours(ctx context.Context, _ int, srv *server, _ *bare, r *report) error {
	sb, err := srv.client.Sandboxes().Create(ctx, shoal.CreateSandboxRequest{})
	if err != nil {
		return err
	}
	field := bombs.Field{Client: srv.client, Neighbour: sb.ID}
	r.Neighbours = &neighbours{}
	if r.Neighbours.Quiet, err = field.Measure(ctx, bombLength); err != nil {
		return err
	}
	for _, b := range bombs.All() {
		got, err := field.Try(ctx, b, bombLength)
		if err != nil {
			return err
		}
		r.Neighbours.Bombs = append(r.Neighbours.Bombs, got)
	}
	return srv.client.Sandboxes().Delete(ctx, sb.ID)
}
