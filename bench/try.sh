#!/usr/bin/env bash
# Smoke-test adapters on every workload: try.sh [--mode http] [NAME ...], try.sh PYTHON ADAPTER;
# or servers with one run each: try.sh --mode server [NAME ...]
exec "${PYTHON:-python3}" "$(dirname "$0")/smoke.py" "$@"
