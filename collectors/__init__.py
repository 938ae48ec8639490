"""Switch side: gNMI sessions, wire decoder and vendor profiles that turn what switches tell into events and facts.

The only room that imports pygnmi and grpc for live targets.
"""
