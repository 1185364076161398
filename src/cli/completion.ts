// Completion scripts for bash, zsh and fish, made from the tree of commands. They are whole: completing starts no process.
// Knows nothing of what a command does.
import type { Argument, Command, Option } from 'commander';

export const shells = ['bash', 'zsh', 'fish'] as const;

/** Words that may stand there, or a file's name. The server judges; other words are not refused here. */
type Suggested = readonly string[] | 'file';
const suggestions = new WeakMap<Option | Argument, Suggested>();

export function suggest<T extends Option | Argument>(of: T, words: Suggested): T {
  suggestions.set(of, words);
  return of;
}

export function completionScript(shell: string, program: Command): string {
  const places = placesOf(program);
  if (shell === 'bash') return bash(places);
  return shell === 'zsh' ? zsh(places) : fish(places);
}

interface Word {
  readonly word: string;
  readonly says: string;
}
interface Flag extends Word {
  /** Undefined: it takes no value. */
  readonly value: Suggested | undefined;
}
/** A command of the tree, by its names without the first: `/routes/set`; the root is the empty text. */
interface Place {
  readonly path: string;
  readonly commands: readonly Word[];
  readonly flags: readonly Flag[];
  readonly args: readonly Suggested[];
}

function placesOf(command: Command, path = ''): Place[] {
  const { commands, options } = command;
  const flags = options.flatMap((option) => {
    if (option.hidden || option.long === undefined || option.long === null) return [];
    const value = option.required || option.optional ? (suggestions.get(option) ?? []) : undefined;
    return [{ word: option.long, says: option.description, value }];
  });
  return [
    {
      path,
      commands: commands.map((child) => ({ word: child.name(), says: child.description() })),
      flags: [...flags, { word: '--help', says: 'show how it is used', value: undefined }],
      args: command.registeredArguments.map((argument) => suggestions.get(argument) ?? []),
    },
    ...commands.flatMap((child) => placesOf(child, `${path}/${child.name()}`)),
  ];
}

/** Places where words stand, as patterns of a shell's `case`: `/routes/set --fallback`, `/routes/set 1`. */
interface Choice {
  readonly at: string;
  readonly of: Suggested;
}
const valuesOf = (places: readonly Place[]): Choice[] =>
  places.flatMap(({ path, flags }) =>
    flags.flatMap(({ word, value }) => (value === undefined ? [] : [{ at: `${path} ${word}`, of: value }])),
  );
const argsOf = (places: readonly Place[]): Choice[] =>
  places.flatMap(({ path, args }) => args.map((of, i) => ({ at: `${path} ${i}`, of })));

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;
const patterns = (choices: readonly { at: string }[]): string => choices.map(({ at }) => quoted(at)).join(' | ');
const below = (places: readonly Place[]): string => patterns(places.slice(1).map(({ path }) => ({ at: path })));

function bash(places: readonly Place[]): string {
  const words = (list: readonly string[]) => quoted(list.join(' '));
  const choice = ({ at, of }: Choice) => `    ${quoted(at)}) ${of === 'file' ? 'files=1' : `list=${words(of)}`} ;;`;
  return `# Completion of sigfig for bash: source <(sigfig completion bash)
_sigfig() {
  local cur=\${COMP_WORDS[COMP_CWORD]} prev=\${COMP_WORDS[COMP_CWORD - 1]} at= n=0 skip= files= list= word i
  for ((i = 1; i < COMP_CWORD; i++)); do
    word=\${COMP_WORDS[i]}
    # bash takes --flag=value and http://host apart at = and :
    if [[ $word == [=:] ]]; then skip=1; continue; fi
    if [[ $skip ]]; then skip=; continue; fi
    case "$at $word" in
    ${patterns(valuesOf(places))}) skip=1; continue ;;
    esac
    [[ $word == -* ]] && continue
    case "$at/$word" in
    ${below(places)}) at=$at/$word n=0 ;;
    *) n=$((n + 1)) ;;
    esac
  done
  if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=\${COMP_WORDS[COMP_CWORD - 2]}; fi
  if [[ $skip || $prev == -* ]]; then
    case "$at $prev" in
${valuesOf(places).map(choice).join('\n')}
    *) skip= ;;
    esac
  fi
  if [[ ! $skip && ! $list && ! $files ]]; then
    if [[ $cur == -* ]]; then
      case "$at" in
${places.map(({ path, flags }) => `      ${quoted(path)}) list=${words(flags.map(({ word }) => word))} ;;`).join('\n')}
      esac
    else
      case "$at" in
${places
  .filter(({ commands }) => commands.length > 0)
  .map(({ path, commands }) => `      ${quoted(path)}) list=${words(commands.map(({ word }) => word))} ;;`)
  .join('\n')}
      *) case "$at $n" in
${argsOf(places).map(choice).join('\n')}
      esac ;;
      esac
    fi
  fi
  local IFS=$'\\n'
  if [[ $files ]]; then
    compopt -o filenames 2>/dev/null
    COMPREPLY=($(compgen -f -- "$cur"))
  else
    COMPREPLY=($(compgen -W "\${list// /$'\\n'}" -- "$cur"))
  fi
}
complete -F _sigfig sigfig
`;
}

function zsh(places: readonly Place[]): string {
  const described = (list: readonly Word[]) =>
    list.map(({ word, says }) => quoted(`${word.replaceAll(':', '\\:')}:${says}`)).join(' ');
  const choice = ({ at, of }: Choice) =>
    `    ${quoted(at)}) ${of === 'file' ? '_files' : of.length > 0 ? `compadd -- ${of.map(quoted).join(' ')}` : ':'}; return ;;`;
  return `#compdef sigfig
# Completion of sigfig for zsh: source <(sigfig completion zsh) after compinit, or a file _sigfig in the fpath
_sigfig() {
  local at= word skip= cur=$words[CURRENT]
  local -a list
  integer i n=0
  for ((i = 2; i < CURRENT; i++)); do
    word=$words[i]
    if [[ -n $skip ]]; then skip=; continue; fi
    case "$at $word" in
    ${patterns(valuesOf(places))}) skip=$word; continue ;;
    esac
    [[ $word == -* ]] && continue
    case "$at/$word" in
    ${below(places)}) at=$at/$word n=0 ;;
    *) n+=1 ;;
    esac
  done
  if [[ -z $skip && $cur == --*=* ]]; then
    skip=\${cur%%=*}
    compset -P '*='
  fi
  if [[ -n $skip ]]; then
    case "$at $skip" in
${valuesOf(places).map(choice).join('\n')}
    esac
    return
  fi
  if [[ $cur == -* ]]; then
    case "$at" in
${places.map(({ path, flags }) => `    ${quoted(path)}) list=(${described(flags)}) ;;`).join('\n')}
    esac
    _describe -o flag list
    return
  fi
  case "$at" in
${places
  .filter(({ commands }) => commands.length > 0)
  .map(({ path, commands }) => `  ${quoted(path)}) list=(${described(commands)}); _describe command list; return ;;`)
  .join('\n')}
  esac
  case "$at $n" in
${argsOf(places).map(choice).join('\n')}
  esac
}
if [[ $funcstack[1] == _sigfig ]]; then _sigfig "$@"; else compdef _sigfig sigfig; fi
`;
}

function fish(places: readonly Place[]): string {
  const escaped = (text: string) => `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
  const at = (path: string, more = '') => escaped(`__sigfig_at ${escaped(path)}${more}`);
  const given = (of: Suggested) => (of === 'file' ? '-F' : of.length > 0 ? `-a ${escaped(of.join(' '))}` : '');
  const lines = places.flatMap(({ path, commands, flags, args }) => [
    ...commands.map(
      ({ word, says }) => `complete -c sigfig -n ${at(path, ' 0')} -a ${escaped(word)} -d ${escaped(says)}`,
    ),
    ...flags.map(({ word, says, value }) => {
      const taken = value === undefined ? '' : ` ${value === 'file' ? '-r' : '-x'} ${given(value)}`.trimEnd();
      return `complete -c sigfig -n ${at(path)} -l ${word.replace(/^--/, '')}${taken} -d ${escaped(says)}`;
    }),
    ...args.flatMap((of, i) => (of.length > 0 ? [`complete -c sigfig -n ${at(path, ` ${i}`)} ${given(of)}`] : [])),
  ]);
  const list = (items: readonly string[]) => items.map(escaped).join(' ');
  return `# Completion of sigfig for fish: sigfig completion fish > ~/.config/fish/completions/sigfig.fish
function __sigfig_at --description 'whether the command line is at this command, and at this argument of it'
    set -l at ''
    set -l n 0
    set -l skip 0
    for word in (commandline -opc)[2..-1]
        if test $skip = 1
            set skip 0
        else if contains -- "$at $word" ${list(valuesOf(places).map(({ at }) => at))}
            set skip 1
        else if string match -q -- '-*' $word
            continue
        else if contains -- "$at/$word" ${list(places.slice(1).map(({ path }) => path))}
            set at "$at/$word"
            set n 0
        else
            set n (math $n + 1)
        end
    end
    test "$at" = "$argv[1]"; and begin
        test (count $argv) -lt 2; or test $n = $argv[2]
    end
end
complete -c sigfig -f
${lines.join('\n')}
`;
}
