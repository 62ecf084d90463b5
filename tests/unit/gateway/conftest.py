"""The tests of the gateway's packages find what they share, `gateway_records`, beside this file."""
