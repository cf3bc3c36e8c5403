/**
 * The layers around a hostile program in a box of gVisor (`SECURITY.md`), how the suite removes each, and which attempts then succeed.
 * Attempts that gVisor itself stops succeed only without it: most attacks on a kernel meet another kernel here.
 */
import { Effect } from "effect"
import { execFileSync } from "node:child_process"
import { run } from "../hosts/bubblewrap.fixture.ts"
import { type Attempt, attempts as shared, type Name, type Needs, ownAddress, reads } from "./EscapeAttempts.ts"
import type { Removal } from "./GvisorWorld.ts"
import { layers as ofBubblewrap } from "./Layers.ts"

export interface Layer {
  readonly removal: Removal
  /** The attempts that succeed without it. */
  readonly lets: ReadonlyArray<Name>
  /** The message of the probe when it is missing; `undefined`: the probe does not look at it. */
  readonly probe?: string
  /** Elsewhere there is no such layer. */
  readonly needs?: Needs
}

/** Counts as far as it gets, and prints that: eight of them until `$ARGV[0]` seconds are over, or one for as much time of a processor. */
const COUNTS = `
my ($seconds, $isMeasure) = @ARGV;
my $end = time + $seconds;
pipe my $from, my $to;
for (1 .. ($isMeasure ? 1 : 8)) {
  next if fork;
  my $count = 0;
  while ($isMeasure ? (times)[0] < $seconds : time < $end) { $count += 1 for 1 .. 1000 }
  syswrite $to, "$count\\n";
  exit;
}
close $to;
my $sum = 0;
$sum += $_ while <$from>;
print $sum;
`

export const counts = (...args: ReadonlyArray<string>) => ["perl", "-e", COUNTS, ...args] as const

/** Asks again: in the machine's own network, gVisor of 2022-12 does not wait for what is to be read. */
const patiently = (host: string) => ({
  succeeds: reads(({ port }) =>
    `perl -MIO::Socket::INET -e '
      my $s = IO::Socket::INET->new(PeerAddr => "${host}", PeerPort => ${port}) or exit 1;
      for (1 .. 100) {
        sysread $s, my $said, 100;
        print $said and exit if length $said;
        select undef, undef, undef, 0.05;
      }'`
  )
})

export const attempts: Readonly<Record<Name, Attempt>> = {
  ...shared,
  "reach a port of the machine's loopback interface": patiently("127.0.0.1"),
  "reach a port of the machine at its own address": patiently(ownAddress ?? "127.0.0.1"),
  "take a processor": {
    ...shared["take a processor"],
    // By what got done: gVisor counts the time that a program wants to run, not the time that it is let.
    succeeds: ({ box }) =>
      Effect.gen(function*() {
        const [program, ...args] = counts("0.4", "measure")
        const inSomeTime = Number(execFileSync(program, args, { encoding: "utf8" }))
        const { output } = yield* run(box, counts("4").map((arg) => `'${arg}'`).join(" "))
        return Number(output) >= inSomeTime
      })
  }
}

/** Becomes the command on the machine itself, as the sandbox's user, where its folders are. */
const WITHOUT_KERNEL = `
my ($pidFile) = map { $ARGV[$_ + 1] } grep { $ARGV[$_] eq "--pid-file" } 0 .. $#ARGV;
open my $pid, ">", $pidFile or die $!;
print $pid $$;
close $pid;
my $user = $config->{linux}{uidMappings}[1]{hostID};
my ($workspace) = map { $_->{source} } grep { $_->{destination} eq "/workspace" } @{$config->{mounts}};
%ENV = map { split /=/, $_, 2 } @{$config->{process}{env}};
chdir $workspace;
exec "/usr/bin/setpriv", "--reuid=$user", "--regid=$user", "--clear-groups", "--no-new-privs", @{$config->{process}{args}}`

const all = {
  "gVisor's kernel": {
    removal: { runsc: WITHOUT_KERNEL },
    lets: [
      "read a file of the machine",
      "read command lines of others",
      "learn the machine's name",
      "read shared memory of the machine",
      "reach a port of the machine's loopback interface",
      "reach an abstract unix socket of the machine",
      "trace a process"
    ],
    probe: "A box runs on the machine's own kernel."
  },
  "network of its own": {
    // And without a user namespace, with which gVisor of 2022-12 does not start in the machine's network.
    removal: {
      runsc: `
        $_ = "--network=host" for grep { $_ eq "--network=none" } @ARGV;
        $config->{process}{user} = { map { $_ => $config->{linux}{$_ . "Mappings"}[1]{hostID} } qw(uid gid) };
        delete $config->{linux}{$_} for qw(uidMappings gidMappings);
        $config->{linux}{namespaces} = [grep { $_->{type} !~ /^(?:network|user)$/ } @{$config->{linux}{namespaces}}]`
    },
    lets: ["reach a port of the machine's loopback interface", "reach a port of the machine at its own address"],
    probe: "A box reaches the host's loopback interface."
  },
  "own user": {
    removal: { runsc: `$config->{linux}{$_}[1]{hostID} = 0 for qw(uidMappings gidMappings)` },
    lets: ["read what is the service's alone, in a folder that boxes see"],
    probe: "A box does not run as a user of its own."
  },
  "files by allow list": {
    removal: {
      runsc: `
        mkdir "$bundle/root/machine";
        push @{$config->{mounts}}, { destination => "/machine", type => "bind", source => "/", options => ["rbind", "ro"] }`
    },
    lets: ["read a file of the machine"]
  },
  "read-only system": {
    removal: { runsc: `for my $mount (@{$config->{mounts}}) { s/^ro$/rw/ for @{$mount->{options}} }` },
    lets: ["change a program that other sandboxes run"]
  },
  "read-only root": {
    // And everybody's, as none of the host's is.
    removal: { runsc: `$config->{root}{readonly} = JSON::PP::false; chmod 0777, "$bundle/root"` },
    lets: ["put a file beside the system's"],
    probe: "A box can write to /"
  },
  "home files without links": {
    removal: { box: ofBubblewrap["home files without links"].removal.box ?? ((box) => box) },
    lets: ["have the host write its home files elsewhere, through a link"]
  },
  "no capabilities": {
    removal: {
      // And as root: another user's are gone when it starts a program.
      runsc: `
        $config->{process}{user} = { uid => 0, gid => 0 };
        $config->{process}{capabilities}{$_} = ["CAP_SYS_ADMIN", "CAP_DAC_OVERRIDE"] for qw(bounding effective permitted)`
    },
    lets: ["use a capability, to rename its machine"],
    probe: "A box has capabilities."
  },
  "system call filter": {
    removal: { runsc: `delete $config->{linux}{seccomp}` },
    lets: ["trace a process", "become root in a user namespace of its own"],
    probe: "The system call filter is not in force."
  },
  "control groups": {
    needs: "control groups",
    removal: { options: { cgroupRoot: "/nowhere" } },
    lets: ["take 400 MiB of memory", "take a processor"]
  },
  "RLIMIT_NPROC": {
    // And without groups: they count what gVisor takes of the machine for processes, which may be few or many.
    removal: {
      options: { cgroupRoot: "/nowhere" },
      runsc: `$config->{process}{rlimits} = [grep { $_->{type} ne "RLIMIT_NPROC" } @{$config->{process}{rlimits}}]`
    },
    lets: ["start 200 processes"]
  },
  "size of files in memory": {
    removal: { runsc: `for my $mount (@{$config->{mounts}}) { $mount->{options} = [grep { !/^size=/ } @{$mount->{options}}] }` },
    lets: ["fill memory with files"]
  },
  "disk, measured": { removal: { options: { diskLookMillis: 2 ** 31 - 1, diskGlanceMillis: 2 ** 31 - 1 } }, lets: [] },
  "disk, kept by the kernel": { needs: "sized folders", removal: { lackingSizes: "taken away" }, lets: [] },
  "RLIMIT_FSIZE": {
    removal: { runsc: `$config->{process}{rlimits} = [grep { $_->{type} ne "RLIMIT_FSIZE" } @{$config->{process}{rlimits}}]` },
    lets: ["write a file beyond its limit"]
  },
  "death with the worker": { removal: { setpriv: `splice @ARGV, 0, 2` }, lets: ["outlive its worker"] },
  "egress allow list": {
    removal: { egress: ofBubblewrap["egress allow list"].removal.egress ?? {} },
    lets: ["reach a name that is not listed"]
  },
  "egress address check": {
    removal: { egress: ofBubblewrap["egress address check"].removal.egress ?? {} },
    lets: ["reach a listed name that leads to a private address"]
  }
} satisfies Readonly<Record<string, Layer>>

export type LayerName = keyof typeof all

export const layers: Readonly<Record<LayerName, Layer>> = all

/** Layers that stop the same thing, each by itself: it comes off only without both. */
export const pairs: ReadonlyArray<{ readonly layers: readonly [LayerName, LayerName]; readonly lets: ReadonlyArray<Name> }> = [
  {
    layers: ["disk, measured", "disk, kept by the kernel"],
    lets: [
      "fill the disk and live on",
      "fill the disk with a file that it has deleted, and live on",
      "fill the disk in a folder without permissions, and live on",
      "make files without number and live on"
    ]
  }
]

/** Takes several away. Perl of both runs. */
export const without = (names: ReadonlyArray<LayerName>): Removal =>
  names.map((name) => layers[name].removal).reduce<Removal>((one, other) => {
    const changes = [one.runsc, other.runsc].filter((change) => change !== undefined)
    return { ...one, ...other, ...(changes.length === 0 ? {} : { runsc: changes.join(";\n") }) }
  }, {})
