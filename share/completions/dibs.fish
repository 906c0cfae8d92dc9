# fish completion for dibs; made by 'dibs help --format fish'
function __dibs_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in (dibs complete -- $words[2..-1] 2>/dev/null)
        switch $line
            case :pools
                dibs pool --names 2>/dev/null
            case :files
                __fish_complete_path (commandline -ct)
            case ':command*'
                __fish_complete_subcommand --fcs-skip=2
            case '*'
                echo $line
        end
    end
end
complete -c dibs -f -a '(__dibs_complete)'
