"""Switch side: gNMI sessions, wire decoder and vendor profiles that turn counters into events. Not built yet.

The only room that will import pygnmi and grpc for live targets.
"""
