/** Owns `holdfast completion`. */
import type { Cli } from '../cli.js';
import { addExamples, type Definition } from '../command.js';
import { CliError, EXIT } from '../exit.js';

export function define({ command, run }: Definition): void {
  command.argument('<shell>', 'bash, zsh, fish');
  addExamples(command, [
    ['source <(holdfast completion bash)', 'in ~/.bashrc: complete commands, options and what runs'],
    ['holdfast completion zsh > ~/.zfunc/_holdfast', 'in a directory of $fpath'],
    ['holdfast completion fish > ~/.config/fish/completions/holdfast.fish', 'for fish'],
  ]);
  run(async (cli, _options, [shell = '']) => {
    if (shell === 'targets') {
      // What the scripts ask for: whatever goes wrong, a TAB shows nothing rather than an error.
      await cli.output.write(await listTargets(cli).catch(() => ''));
      return EXIT.ok;
    }
    const [{ describeCommands }, scripts] = await Promise.all([
      import('../program.js'),
      import('../completion-scripts.js'),
    ]);
    const script = scripts.completionScript(shell, await describeCommands());
    if (script === undefined)
      throw new CliError(
        EXIT.usage,
        `no completion for ${JSON.stringify(shell)}: there is bash, zsh and fish`,
      );
    await cli.output.write(script);
    return EXIT.ok;
  });
}

async function listTargets(cli: Cli): Promise<string> {
  const [{ fetchKnown }, { listTargetNames }, { sanitize }] = await Promise.all([
    import('../fetch.js'),
    import('../target.js'),
    import('../render/text.js'),
  ]);
  const names = listTargetNames(await fetchKnown(cli));
  // A name with a space or a control character would be several words, or worse, to a shell.
  return names
    .filter((name) => sanitize(name) === name && /^[\w@%+=:,./-]+$/.test(name))
    .map((name) => `${name}\n`)
    .join('');
}
