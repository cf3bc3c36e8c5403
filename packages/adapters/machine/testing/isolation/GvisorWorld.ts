/** A service whose boxes are gVisor's, and may lack a layer. */
import { Effect } from "effect"
import { mkdirSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import * as Probe from "../../src/box/Probe.ts"
import * as SizedFolders from "../../src/files/SizedFolders.ts"
import { workspacesIn } from "../../src/files/TreesLayout.ts"
import * as HostRequirements from "../../src/gvisor/HostRequirements.ts"
import * as SandboxHostGvisor from "../../src/gvisor/SandboxHostGvisor.ts"
import { defaults, type Limits } from "../../src/host/Limits.ts"
import { running } from "../hosts/gvisor.fixture.ts"
import { inFolders, type Kind, type SharedRemoval } from "./World.ts"

export interface Removal extends SharedRemoval {
  /**
   * Perl that changes `@ARGV`, the arguments of `runsc`, `$config`, what the container's configuration says, or the folder `$bundle`
   * that has it. It may become another program.
   */
  readonly runsc?: string
  /** Perl that changes `@ARGV`, the arguments of `setpriv`. */
  readonly setpriv?: string
}

/** In its place: changes what it is told and becomes it. Other calls than those that start something pass. */
export const tamperedRunsc = (runsc: string, change: string) =>
  `#!/usr/bin/perl
use JSON::PP;
my ($bundle) = map { $ARGV[$_ + 1] } grep { $ARGV[$_] eq "--bundle" } 0 .. $#ARGV;
exec "${runsc}", @ARGV unless defined $bundle;
open my $file, "<", "$bundle/config.json" or die $!;
local $/;
my $config = decode_json(<$file>);
${change};
open my $changed, ">", "$bundle/config.json" or die $!;
print $changed encode_json($config);
close $changed;
exec "${runsc}", @ARGV;
`

const tamperedSetpriv = (setpriv: string, change: string) => `#!/usr/bin/perl\n${change};\nexec "${setpriv}", @ARGV;\n`

/** The host of a service that keeps its things in `folder`. Shows boxes the folder `programs` in it. */
export const hostIn = (folder: string, removal: Removal, limits: Partial<Limits> = {}, workspaceOf = workspacesIn(join(folder, "trees"))) =>
  Effect.gen(function*() {
    const found = yield* HostRequirements.find({ directory: join(folder, "boxes"), ...removal.options })
    const toolsFolder = join(folder, "tools")
    mkdirSync(toolsFolder, { recursive: true, mode: 0o755 })
    const inPlaceOf = (name: "runsc" | "setpriv", script: string | undefined) => {
      if (script === undefined) return found.tools[name]
      writeFileSync(join(toolsFolder, name), script, { mode: 0o755 })
      return join(toolsFolder, name)
    }
    const tools = {
      ...found.tools,
      runsc: inPlaceOf("runsc", removal.runsc === undefined ? undefined : tamperedRunsc(found.tools.runsc, removal.runsc)),
      setpriv: inPlaceOf("setpriv", removal.setpriv === undefined ? undefined : tamperedSetpriv(found.tools.setpriv, removal.setpriv))
    }
    const folders = yield* SizedFolders.make({
      directory: join(folder, "trees"),
      limits: { ...defaults, ...limits },
      ...(removal.lackingSizes === undefined ? {} : { lacking: removal.lackingSizes })
    })
    return yield* SandboxHostGvisor.makeWith({ ...found, tools }, {
      limits,
      folders,
      workspaceOf,
      readOnly: [Probe.inside, join(folder, "programs")],
      diskLookMillis: removal.options?.diskLookMillis ?? 100,
      ...(removal.options?.diskGlanceMillis === undefined ? {} : { diskGlanceMillis: removal.options.diskGlanceMillis })
    })
  })

export const gvisor: Kind<Removal> = {
  serviceIn: inFolders(hostIn),
  worker: fileURLToPath(new URL("./gvisor.worker.ts", import.meta.url)),
  running
}
