# bash completion for dibs; made by 'dibs help --format bash'
# Readline splits words at @, : and =, which names and options contain: split the line at blanks, and offer what
# follows the last of these characters.
_dibs_add() {
    local word
    while IFS= read -r word; do
        word=${word%%$'\t'*}
        [[ $word == "$cur"* ]] && COMPREPLY+=("${word:${#before}}")
    done
}
_dibs() {
    local cur before='' line words
    COMPREPLY=()
    read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    [[ ${COMP_LINE:0:COMP_POINT} == *[[:blank:]] ]] && words+=('')
    cur=${words[${#words[@]} - 1]}
    [[ $cur == *[@:=]* && $COMP_WORDBREAKS == *[@:=]* ]] && before=${cur%"${cur##*["$COMP_WORDBREAKS"]}"}
    before=${before%@} # the word that Readline replaces begins with an @
    while IFS= read -r line; do
        case $line in
            :pools) _dibs_add < <(dibs pool --names 2>/dev/null) ;;
            :files) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- "$cur") ;;
            :command*) mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -c -- "$cur") ;;
            *) _dibs_add <<<"$line" ;;
        esac
    done < <(dibs complete -- "${words[@]:1}" 2>/dev/null)
}
complete -F _dibs dibs
