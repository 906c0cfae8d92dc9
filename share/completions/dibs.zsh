#compdef dibs
# zsh completion for dibs; made by 'dibs help --format zsh'
_dibs() {
    local line
    local -a found
    for line in ${(f)"$(dibs complete -- "${(@)words[2,CURRENT]}" 2>/dev/null)"}; do
        case $line in
            :pools) found+=(${${(f)"$(dibs pool --names 2>/dev/null)"}//:/\\:}) ;;
            :files) _files; return ;;
            :command*) (( $#found )) && _describe dibs found
                shift ${line#:command } words; (( CURRENT -= ${line#:command } )); _normal; return ;;
            *) found+=("${${line//:/\\:}/$'\t'/:}") ;;
        esac
    done
    _describe dibs found
}
if [[ $funcstack[1] == _dibs ]]; then _dibs "$@"; else compdef _dibs dibs; fi
