/** The programs of a sandbox (docs/decisions/17). Setup commands and the agent have the same ones. */
import { EnvironmentInvalid } from "@slipway/domain/environment/rules/Environment"
import { type Programs, SandboxHost } from "@slipway/domain/sandbox/ports/SandboxHost"
import { Effect } from "effect"
import type { RepositoryEnvironment } from "./Environments.ts"

const imageOf = ({ environment }: RepositoryEnvironment): string | null =>
  environment instanceof EnvironmentInvalid ? null : environment.image

/** The programs of the first requested image that is allowed. */
export const of = Effect.fn("RepositoryPrograms.of")(function*(environments: ReadonlyArray<RepositoryEnvironment>) {
  const host = yield* SandboxHost
  for (const one of environments) {
    const image = imageOf(one)
    const programs = image === null ? null : yield* host.programs(image)
    if (programs !== null && !programs.isRefused) return programs
  }
  return yield* host.programs(null)
})

/** The fields of the setup event about the requested image, if the sandbox has another one. */
export const report = Effect.fnUntraced(function*(one: RepositoryEnvironment, { image }: Programs) {
  const host = yield* SandboxHost
  const asked = imageOf(one)
  if (asked === null) return {}
  // Only Docker has images to choose from.
  if (host.isolation !== "docker") return { ignored: ["image"] }
  const programs = yield* host.programs(asked)
  return programs.isRefused || programs.image !== image ? { image_refused: asked } : {}
})
