/** The environment of a process in a box of any kind. */
import { ARTIFACTS_FOLDER, ARTIFACTS_VARIABLE } from "@slipway/domain/files/rules/ArtifactsFolder"
import type { Programs } from "@slipway/domain/sandbox/ports/SandboxHost"
import { dirname } from "node:path"
import * as Egress from "../egress/Egress.ts"
import * as TrustedAuthorities from "../network/TrustedAuthorities.ts"

/** The values that the box sets. */
export interface BoxValues {
  /** Folders with the box's programs, in the order of a PATH. */
  readonly path: string
  readonly home: string
  readonly scratch: string
  /** Whether the box has network egress, through its proxy. */
  readonly hasWayOut: boolean
  /** The file with the certificate authorities that programs trust; `null`: those of the image. */
  readonly authorities?: string | null
}

/**
 * All variables of a process. Of one name, the later source wins: certificate authorities, proxy settings for runtimes, variables of the
 * programs, variables of the command, proxy variables, PATH, HOME, TMPDIR, SLIPWAY_ARTIFACTS,
 * LANG and TERM. The service's environment is not inherited.
 */
export const of = (
  { env, programs }: { readonly env: Readonly<Record<string, string>>; readonly programs?: Programs | undefined },
  { authorities = null, hasWayOut, home, path, scratch }: BoxValues
): Readonly<Record<string, string>> => ({
  ...authorities === null ? {} : TrustedAuthorities.variables(authorities),
  ...hasWayOut ? Egress.runtimes : {},
  ...programs?.env,
  ...env,
  ...hasWayOut ? Egress.environment : {},
  // Node's own folder comes last: it makes `node` available and hides no other program.
  PATH: [...programs?.path ?? [], path, dirname(process.execPath)].join(":"),
  HOME: home,
  TMPDIR: scratch,
  [ARTIFACTS_VARIABLE]: `${home}/${ARTIFACTS_FOLDER}`,
  LANG: "C.UTF-8",
  TERM: "dumb"
})
