/** Owns the completion scripts of bash, zsh and fish, made from what the commands declare. Pure. */

/** A command as completion sees it. */
export interface CommandFacts {
  readonly name: string;
  readonly summary: string;
  readonly options: readonly OptionFacts[];
  readonly operands: readonly Operand[];
}

export interface OptionFacts {
  /** `--json`. */
  readonly long: string;
  /** `-f`; undefined = none. */
  readonly short: string | undefined;
  readonly takes: 'nothing' | 'text' | 'file';
  readonly summary: string;
}

/** What may stand at a place behind the command. */
export type Operand =
  | { readonly kind: 'target' | 'file' | 'none' }
  | { readonly kind: 'words'; readonly words: readonly string[] };

/** Options that may stand before the command as well as behind it. */
const GLOBAL: readonly OptionFacts[] = [
  { long: '--address', short: undefined, takes: 'text', summary: 'address of the daemon' },
  { long: '--token', short: undefined, takes: 'text', summary: 'token for a daemon on TCP' },
  { long: '--ca-cert', short: undefined, takes: 'file', summary: 'CA of the daemon, for https' },
  { long: '--client-cert', short: undefined, takes: 'file', summary: 'certificate to show to the daemon' },
  { long: '--client-key', short: undefined, takes: 'file', summary: 'its key' },
  { long: '--no-color', short: undefined, takes: 'nothing', summary: 'no colours' },
];
const GLOBAL_TEXT = flagsOf(GLOBAL.filter(({ takes }) => takes === 'text'));
const GLOBAL_FILE = flagsOf(GLOBAL.filter(({ takes }) => takes === 'file'));
const GLOBAL_FLAGS = `${flagsOf(GLOBAL)} --help`;

/** A TAB must not wait for a daemon that hangs. */
const TARGETS = 'timeout 1 holdfast completion targets 2>/dev/null';

/** The script for a shell; undefined for one that is not known. */
export function completionScript(shell: string, commands: readonly CommandFacts[]): string | undefined {
  if (shell === 'bash') return bash(commands);
  if (shell === 'zsh') return zsh(commands);
  return shell === 'fish' ? fish(commands) : undefined;
}

function flagsOf(options: readonly OptionFacts[]): string {
  return options.flatMap(({ long, short }) => (short === undefined ? [long] : [long, short])).join(' ');
}

/** The cases of a shell's `case "$command" in`: options, options with a value, options with a file, operands. */
function cases(commands: readonly CommandFacts[]): string {
  return commands
    .map(({ name, options, operands }) => {
      const withValue = options.filter(({ takes }) => takes === 'text');
      const withFile = options.filter(({ takes }) => takes === 'file');
      const kinds = operands.map((operand) =>
        operand.kind === 'words' ? `words:${operand.words.join(',')}` : operand.kind,
      );
      return `    ${name})
      options="${flagsOf(options)}" values=" ${flagsOf(withValue)} " files=" ${flagsOf(withFile)} " operands="${kinds.join(' ')}" ;;`;
    })
    .join('\n');
}

/** What both shells do to find the command and the number of the operand. Words count from $first. */
function scan(words: string, first: number, current: string): string {
  return `  for ((at = ${first}; at < ${current}; at++)); do
    word="\${${words}[at]}"
    if [[ -n $skip ]]; then skip=; continue; fi
    if [[ -z $command ]]; then
      case "$word" in
        -*) [[ " ${GLOBAL_TEXT} ${GLOBAL_FILE} " == *" $word "* ]] && skip=1 ;;
        *) command="$word"; _holdfast_facts "$command" ;;
      esac
    elif [[ $word == -* ]]; then
      [[ "$values$files ${GLOBAL_TEXT} ${GLOBAL_FILE} " == *" $word "* ]] && skip=1
    else
      count=$((count + 1))
    fi
  done`;
}

function facts(commands: readonly CommandFacts[]): string {
  return `_holdfast_facts() {
  options= values= files= operands=
  case "$1" in
${cases(commands)}
  esac
}`;
}

function bash(commands: readonly CommandFacts[]): string {
  const names = commands.map(({ name }) => name).join(' ');
  return `# bash completion of holdfast: source <(holdfast completion bash)
${facts(commands)}

_holdfast() {
  local current="\${COMP_WORDS[COMP_CWORD]}" previous="\${COMP_WORDS[COMP_CWORD - 1]}"
  local command= skip= word at count=0 options= values= files= operands= kind
  COMPREPLY=()
${scan('COMP_WORDS', 1, 'COMP_CWORD')}
  if [[ "$files ${GLOBAL_FILE} " == *" $previous "* ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$current"))
  elif [[ -n $skip ]]; then
    :
  elif [[ -z $command ]]; then
    COMPREPLY=($(compgen -W "${names} help ${GLOBAL_FLAGS} --version" -- "$current"))
  elif [[ $current == -* ]]; then
    COMPREPLY=($(compgen -W "$options ${GLOBAL_FLAGS}" -- "$current"))
  elif [[ $command == help ]]; then
    COMPREPLY=($(compgen -W "${names}" -- "$current"))
  else
    local kinds=($operands)
    kind="\${kinds[count]}"
    case "$kind" in
      target) COMPREPLY=($(compgen -W "$(${TARGETS})" -- "$current")) ;;
      file)
        compopt -o filenames 2>/dev/null
        COMPREPLY=($(compgen -f -- "$current")) ;;
      words:*) kind="\${kind#words:}"; COMPREPLY=($(compgen -W "\${kind//,/ }" -- "$current")) ;;
    esac
  fi
}
complete -F _holdfast holdfast
`;
}

function zsh(commands: readonly CommandFacts[]): string {
  const described = commands.map(({ name, summary }) => `    '${name}:${summary.replaceAll("'", "'\\''")}'`);
  return `#compdef holdfast
# zsh completion of holdfast: holdfast completion zsh > a file _holdfast in a directory of $fpath
${facts(commands)}

_holdfast() {
  local command= skip= word at count=0 options= values= files= operands= kind
  local -a commands kinds
  commands=(
${described.join('\n')}
  )
${scan('words', 2, 'CURRENT')}
  if [[ "$files ${GLOBAL_FILE} " == *" $words[CURRENT-1] "* ]]; then
    _files
  elif [[ -n $skip ]]; then
    return
  elif [[ -z $command ]]; then
    _describe command commands
    compadd -- ${GLOBAL_FLAGS} --version
  elif [[ $words[CURRENT] == -* ]]; then
    compadd -- \${=options} ${GLOBAL_FLAGS}
  elif [[ $command == help ]]; then
    _describe command commands
  else
    kinds=(\${=operands})
    kind=$kinds[count+1]
    case "$kind" in
      target) compadd -- \${(f)"$(${TARGETS})"} ;;
      file) _files ;;
      words:*) compadd -- \${(s:,:)\${kind#words:}} ;;
    esac
  fi
}
# Loaded by compinit as a function of this name, or sourced.
if [[ $funcstack[1] == _holdfast ]]; then _holdfast "$@"; else compdef _holdfast holdfast; fi
`;
}

function fish(commands: readonly CommandFacts[]): string {
  const quote = (text: string): string => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const option = (where: string, { long, short, takes, summary }: OptionFacts): string => {
    const letter = short === undefined ? '' : ` -s ${short.slice(1)}`;
    const value = takes === 'nothing' ? '' : takes === 'file' ? ' -r -F' : ' -x';
    return `complete -c holdfast${where} -l ${long.slice(2)}${letter}${value} -d ${quote(summary)}`;
  };
  const lines = commands.flatMap(({ name, summary, options, operands }) => {
    const here = ` -n '__holdfast_is ${name}'`;
    return [
      ...['', 'help'].map(
        (before) =>
          `complete -c holdfast -n '__holdfast_is ${quote(before).replaceAll("'", '"')}' -f -a ${name} -d ${quote(summary)}`,
      ),
      ...options.map((each) => option(here, each)),
      ...operands.flatMap((operand) => {
        if (operand.kind === 'target') return [`complete -c holdfast${here} -f -a '(${TARGETS})'`];
        if (operand.kind === 'words')
          return [`complete -c holdfast${here} -f -a ${quote(operand.words.join(' '))}`];
        return operand.kind === 'file' ? [`complete -c holdfast${here} -F`] : [];
      }),
    ];
  });
  return `# fish completion of holdfast: holdfast completion fish > ~/.config/fish/completions/holdfast.fish
# True when that is the command of the line; "" = there is none yet.
function __holdfast_is
  set -l skip
  for word in (commandline -opc)[2..-1]
    if test -n "$skip"
      set skip
    else if contains -- $word ${GLOBAL_TEXT} ${GLOBAL_FILE}
      set skip 1
    else if not string match -q -- '-*' $word
      test $word = "$argv[1]"
      return
    end
  end
  test -z "$argv[1]"
end
complete -c holdfast -f
${GLOBAL.map((each) => option('', each)).join('\n')}
complete -c holdfast -n '__holdfast_is ""' -f -a help -d 'show the help of a command'
${lines.join('\n')}
`;
}
