/** The system's word for why a call of Node failed, such as `ENOENT`; `undefined`: the error has none. */
export const codeOf = (error: unknown): unknown => error instanceof Error && "code" in error ? error.code : undefined
