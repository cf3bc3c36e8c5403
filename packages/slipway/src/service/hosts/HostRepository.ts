/** One repository at one source host. */
import { SourceHost } from "@slipway/domain/source/ports/SourceHost"
import type { HostPath } from "@slipway/domain/source/schema/RepositoryAlias"
import { Effect } from "effect"
import type * as Hosts from "../../settings/SourceHosts.ts"
import { portsOf } from "./SourceHosts.ts"

/** The path as the host spells it. Fails if the host does not have the repository, or cannot be asked. */
export const pathAt = (host: Hosts.Host, path: HostPath) =>
  SourceHost.use((source) => source.repository(path)).pipe(
    Effect.map(({ fullName }) => fullName),
    Effect.provide(portsOf(host, ""))
  )
