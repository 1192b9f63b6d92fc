package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	shoal "shoal/sdk/go"
)

func caCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:        "ca",
		Short:      "Print the certificate of the server's own authority",
		GroupID:    groupServer,
		SuggestFor: []string{"cert", "certificate", "tls"},
		Long: `Print the certificate of the server's own authority, in PEM: whoever reaches the server's TLS address must trust it. It is
public. A server has such an authority if it is configured with tls_listen and without tls_cert.

This command finds it by itself on the server's machine. Take it to others in a way that nobody can change it on, such
as scp, and name the file with --ca-file or SHOAL_CA_FILE there. With -o json it comes with its fingerprint and its end.`,
		Example: `  shoal ca >shoal-ca.pem
  shoal ca -o json | jq -r .fingerprint
  shoal ls --url https://shoal.example.com:8443 --ca-file shoal-ca.pem`,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := anonymous(a)
			if err != nil {
				return err
			}
			ca, err := client.CA(c.Context())
			if err != nil {
				return err
			}
			return printCA(a, ca)
		},
	}
}

func printCA(a *app, ca shoal.CA) error {
	if a.json() {
		return a.printJSON(ca)
	}
	_, err := fmt.Fprint(a.out, ca.Certificate)
	return err
}
