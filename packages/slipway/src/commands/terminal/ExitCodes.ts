/** Exit codes for scripts (docs/commands.md has the table). 1 is any other error. */
export const ExitCode = {
  done: 0,
  unclear: 2,
  failed: 3,
  refused: 4,
  notFound: 5,
  unauthorized: 6,
  unreachable: 7,
  ended: 8,
  detached: 130
} as const

/** The exit codes in `--help` and the docs. */
export const EXIT_CODES: ReadonlyArray<readonly [code: number, about: string]> = [
  [ExitCode.done, "done; of a turn: it succeeded"],
  [1, "the command line was wrong, or the command broke"],
  [ExitCode.unclear, "the command line is ambiguous"],
  [ExitCode.failed, "the turn, the sandbox or the publication failed"],
  [ExitCode.refused, "the server refused: a rule says no"],
  [ExitCode.notFound, "no such sandbox, approval, question or repository"],
  [ExitCode.unauthorized, "no key, or the server does not accept it for this"],
  [ExitCode.unreachable, "the server cannot be reached, or not now"],
  [ExitCode.ended, "the turn was interrupted or cancelled, or the sandbox ended before it"],
  [ExitCode.detached, "interrupted, by Ctrl-C: the sandbox continues"]
]

/** The end of help texts. */
export const exitCodesText = `EXIT CODES\n${EXIT_CODES.map(([code, about]) => `${String(code).padEnd(5)}${about}`).join("\n")}`
