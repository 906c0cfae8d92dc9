# shellcheck shell=bash disable=SC2034,SC2154 # variables that a test reads
# A page of the dashboard for bats files:   load ../support/dibs; load ../support/serve; load ../support/page
#
# It has a browser's manners: its requests carry the session, and nothing else.

# read_url URL: $BASE is the page's address, $PAGE_PORT its port, $ONE_TIME its token.
read_url() {
    [[ $1 =~ ^http://127\.0\.0\.1:([0-9]+)/#t=([0-9a-f]{32})$ ]] || { echo "no address of a page: $1" >&2; return 1; }
    PAGE_PORT=${BASH_REMATCH[1]} ONE_TIME=${BASH_REMATCH[2]}
    BASE=http://127.0.0.1:$PAGE_PORT
}

# ask_page [CURL OPTION]... PATH: a request of the page, as the user that ASK_BY selects. The answer is $output, its
# HTTP code $code.
ask_page() {
    local words=("$@") path session=()
    path=${words[-1]}
    unset 'words[-1]'
    [ -z "${SESSION:-}" ] || session=(-H "Authorization: Bearer $SESSION")
    output=$("${ASK_BY[@]}" curl -sS --max-time 20 -w '\n%{http_code}' "${session[@]}" "${words[@]}" "$BASE$path")
    code=${output##*$'\n'}
    output=${output%$'\n'*}
}

# begin_session URL: $SESSION and $SESSION_ID.
begin_session() {
    read_url "$1" || return 1
    SESSION='' ask_page --json "{\"token\":\"$ONE_TIME\"}" /v1/session
    assert_code 201 || return 1
    SESSION=$(member session) SESSION_ID=$(member id)
}

# open_page [UID]: a session of this user, or of another one (needs public_folder, and a daemon). Its requests come from
# that user's processes.
open_page() {
    local url
    ASK_BY=()
    if [ $# -gt 0 ]; then
        ASK_BY=(as_user "$1")
        url=$(DIBS_SOCKET=$SOCKET as_user "$1" "$PUBLIC/dibs" ui --no-open) || return 1
    else
        url=$(DIBS_SOCKET=$SOCKET "$DIBS" ui --no-open) || return 1
    fi
    begin_session "$url"
}
