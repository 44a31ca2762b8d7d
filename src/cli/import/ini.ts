/** Owns the reading of INI text as supervisord and systemd write it: sections, and keys that may repeat. */

export interface IniSection {
  readonly name: string;
  readonly entries: readonly { readonly key: string; readonly value: string }[];
}

export interface IniStyle {
  /** `\` at the end of a line goes on with the next (systemd); else indented lines go on (supervisord). */
  readonly continuesWithBackslash: boolean;
}

/** Sections in the order of the text; what stands before the first has the name ''. */
export function readIni(text: string, { continuesWithBackslash }: IniStyle): readonly IniSection[] {
  const sections: { name: string; entries: { key: string; value: string }[] }[] = [{ name: '', entries: [] }];
  let isOpen = false;
  for (const raw of text.replace(/^\uFEFF/, '').split(/\r?\n/)) {
    const section = sections.at(-1);
    const last = section?.entries.at(-1);
    const goesOn = continuesWithBackslash ? isOpen : /^\s+\S/.test(raw);
    if (/^\s*[#;]/.test(raw)) continue;
    if (goesOn && last !== undefined) {
      isOpen = continuesWithBackslash && raw.endsWith('\\');
      last.value = `${last.value}${continuesWithBackslash ? ' ' : '\n'}${(isOpen ? raw.slice(0, -1) : raw).trim()}`;
      continue;
    }
    const header = /^\s*\[([^\]]+)\]/.exec(raw);
    if (header !== null) {
      sections.push({ name: header[1] ?? '', entries: [] });
      continue;
    }
    const at = raw.indexOf('=');
    if (at <= 0) continue;
    isOpen = continuesWithBackslash && raw.endsWith('\\');
    const value = (isOpen ? raw.slice(at + 1, -1) : raw.slice(at + 1)).trim();
    // supervisord: ` ;` begins a comment.
    const cut = continuesWithBackslash ? value : value.replace(/\s+;.*$/, '');
    section?.entries.push({ key: raw.slice(0, at).trim(), value: cut });
  }
  return sections.filter(({ name, entries }) => name !== '' || entries.length > 0);
}
