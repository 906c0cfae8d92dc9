# bash completion for dibs; made by 'dibs help --format bash'
_dibs_add() {
    local word
    while IFS= read -r word; do
        word=${word%%$'\t'*}
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}
_dibs() {
    local cur=${COMP_WORDS[COMP_CWORD]} line
    COMPREPLY=()
    [[ $cur == = ]] && cur=''
    while IFS= read -r line; do
        case $line in
            :names) _dibs_add < <(dibs ls --names 2>/dev/null) ;;
            :pools) _dibs_add < <(dibs pool --names 2>/dev/null) ;;
            :files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
            :command*) mapfile -t COMPREPLY < <(compgen -c -- "$cur") ;;
            *) _dibs_add <<<"$line" ;;
        esac
    done < <(dibs complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _dibs dibs
