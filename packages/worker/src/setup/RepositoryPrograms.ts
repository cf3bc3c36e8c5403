/** Which programs a sandbox has for its repositories (docs/decisions.md 17): setup commands and agent have the same. */
import { EnvironmentInvalid } from "@slipway/domain/environment/Environment"
import { type Programs, SandboxHost } from "@slipway/domain/sandbox/SandboxHost"
import { Effect } from "effect"
import type { RepositoryEnvironment } from "./Environments.ts"

const imageOf = ({ environment }: RepositoryEnvironment): string | null =>
  environment instanceof EnvironmentInvalid ? null : environment.image

/** Those in the first image that a repository asks for and may have. */
export const of = Effect.fn("RepositoryPrograms.of")(function*(environments: ReadonlyArray<RepositoryEnvironment>) {
  const host = yield* SandboxHost
  for (const one of environments) {
    const image = imageOf(one)
    const programs = image === null ? null : yield* host.programs(image)
    if (programs !== null && !programs.isRefused) return programs
  }
  return yield* host.programs(null)
})

/** What the event of the setup says of the image that a repository asks for, if it is not the sandbox's. */
export const report = Effect.fnUntraced(function*(one: RepositoryEnvironment, { image }: Programs) {
  const host = yield* SandboxHost
  const asked = imageOf(one)
  if (asked === null) return {}
  // There are images to choose from with Docker alone.
  if (host.isolation !== "docker") return { ignored: ["image"] }
  const programs = yield* host.programs(asked)
  return programs.isRefused || programs.image !== image ? { image_refused: asked } : {}
})
