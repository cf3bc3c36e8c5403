/** How large a commit is when it is checked out, and what is said when a limit is passed. */
import { Effect } from "effect"
import { git, type GitOptions } from "../Git.ts"
import { type OptionName, OptionNames } from "../options/OptionNames.ts"
import type { Explanation } from "../Remotes.ts"

export interface CheckoutLimits {
  /** Limits of the files of one commit, checked before the checkout. */
  readonly checkoutBytes: number
  readonly checkoutFiles: number
}

/** A size, at most 20 digits, and the end of the line. */
const MAX_LINE_BYTES = 21

/**
 * Number and bytes of the files of a commit; `undefined`: more files than `mostFiles`. Reads no more than is needed to say that they are
 * too many: a few trees can hold billions.
 */
export const measure = (gitDir: string, commit: string, mostFiles: number, options: GitOptions = {}) =>
  git(["ls-tree", "-r", "--format=%(objectsize)", commit], {
    ...options,
    env: { ...options.env, GIT_DIR: gitDir },
    maximumBytes: (mostFiles + 1) * MAX_LINE_BYTES
  }).pipe(
    Effect.map((output) => {
      const sizes = output.toString().split("\n").slice(0, -1)
      // A submodule has "-".
      return { files: sizes.length, bytes: sizes.reduce((sum, size) => sum + (Number(size) || 0), 0) }
    }),
    Effect.catchIf((failure) => failure.reason === "output", () => Effect.undefined)
  )

/** The operator has to raise the limit: another try would not help. */
export const limitPassed = Effect.map(OptionNames, (nameOf) => (problem: string, option: OptionName): Explanation => ({
  detail: `${problem}. This limit is raised with ${nameOf(option)}.`,
  retryable: false
}))

export type LimitPassed = Effect.Success<typeof limitPassed>

const MiB = 2 ** 20
export const bytesText = (bytes: number): string => bytes % MiB === 0 ? `${bytes / MiB} MiB` : `${bytes} bytes`

export const tooManyFiles = ({ checkoutFiles }: CheckoutLimits, tooMuch: LimitPassed): Explanation =>
  tooMuch(`The commit has more than ${checkoutFiles} files`, "maximumCheckoutFiles")

/** Which limit a commit of this size passes. */
export const excessOf = (
  { bytes, files }: { readonly bytes: number; readonly files: number },
  limits: CheckoutLimits,
  tooMuch: LimitPassed
): Explanation | undefined =>
  files > limits.checkoutFiles ?
    tooManyFiles(limits, tooMuch)
    : bytes > limits.checkoutBytes
    ? tooMuch(`The files of the commit have more than ${bytesText(limits.checkoutBytes)} together`, "maximumCheckoutBytes")
    : undefined
