#!/usr/bin/env bash
# Make one virtual environment per peer family under $BENCH_ROOT/venvs.
#
#   bench/install_peers.sh                all families that are not installed yet
#   bench/install_peers.sh agno strands   only these
#   UPGRADE=1 bench/install_peers.sh      bring installed ones to the newest versions
#   PYTHON=python3.12 ...                 the interpreter the environments are made from
#
# A family that installs leaves a stamp with its requirements, so a second call does nothing.
# A family that fails is named at the end; the harness then skips its adapters.
set -u

root=${BENCH_ROOT:-$HOME/.cache/awaken-bench}
python=${PYTHON:-python3}
mkdir -p "$root/venvs" "$root/logs" "$root/results" "$root/tmp"

requirements() {
    case $1 in
        base)          echo "pydantic httpx httpx2 aiohttp openai uvicorn uvloop httptools" ;;
        agno)          echo "agno[os] openai sqlalchemy[asyncio] aiosqlite" ;;
        maf)           echo "agent-framework-core agent-framework-openai" \
                            "agent-framework-ag-ui agent-framework-devui" ;;
        strands)       echo "strands-agents[openai]" ;;
        langgraph)     echo "langgraph langchain langchain-openai langgraph-checkpoint-sqlite" \
                            "langgraph-cli[inmem]" ;;
        openai_agents) echo "openai-agents" ;;
        pydantic_ai)   echo "pydantic-ai-slim[openai,ag-ui] uvicorn" ;;
        adk)           echo "google-adk litellm mcp sqlalchemy[asyncio] aiosqlite" ;;
        *)             return 1 ;;
    esac
}

install_family() {
    local family=$1 wanted venv="$root/venvs/$1" log="$root/logs/install_$1.log"
    if ! wanted=$(requirements "$family"); then
        echo "$family: unknown family"
        return 1
    fi
    if [ -z "${UPGRADE:-}" ] && [ "$(cat "$venv/.installed" 2>/dev/null)" = "$wanted" ]; then
        echo "$family: already installed"
        return 0
    fi
    rm -f "$venv/.installed"
    [ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || return 1
    # shellcheck disable=SC2086  # the requirements are meant to be split into words
    if "$venv/bin/python" -m pip install -q --upgrade $wanted >"$log" 2>&1; then
        echo "$wanted" >"$venv/.installed"
        echo "$family: installed"
    else
        echo "$family: FAILED, see $log"
        return 1
    fi
}

[ $# -gt 0 ] || set -- base agno maf strands langgraph openai_agents pydantic_ai adk
failed=""
for family in "$@"; do
    install_family "$family" || failed="$failed $family"
done
if [ -n "$failed" ]; then
    echo "not installed, will be skipped:$failed"
    exit 1
fi
