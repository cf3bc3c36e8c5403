/**
 * Mounts overlays, in Perl: it can make the kernel's calls that neither Node nor the mount of many systems knows. All it needs on the way
 * is mounted in a namespace of its own, so after any end only finished overlays are left.
 *
 * Arguments: the numbers of four calls of this architecture (unshare, setns, prctl, setfsuid), the namespace for the overlays, the image,
 * two folders to mount it on, the owner of the files, the sandbox's folder, then for each overlay its lower layer in the image, and upper
 * layer, working folder and mount point in the sandbox's folder. An overlay without a lower layer is left out. No link is followed below
 * the image and the sandbox's folder.
 *
 * The kernel writes to an upper layer as the user that mounted the overlay. That is the sandbox's user here, with our rights: root may use
 * the blocks that are reserved for the service on the sandbox's disk (`DiskImages`).
 */
export const SCRIPT = String.raw`
use strict;
use Fcntl qw(O_RDONLY O_NOFOLLOW O_DIRECTORY);
my ($unshare, $setns, $prctl, $setfsuid, $namespace, $image, $stage, $mapped, $user, $root, @rest) = @ARGV;
my ($OPEN_TREE, $MOVE_MOUNT, $FSOPEN, $FSCONFIG, $FSMOUNT, $MOUNT_SETATTR) = (428, 429, 430, 431, 432, 442);
my $empty = "";
sub call { my ($what, $number, @args) = @_; my $result = syscall($number, @args); $result >= 0 or die "$what: $!\n"; $result }
# The descriptors of all folders on the way stay open.
my @open;
sub folder { my ($path, $follow) = @_;
  sysopen(my $handle, $path, O_RDONLY | O_DIRECTORY | ($follow ? 0 : O_NOFOLLOW)) or return undef;
  push @open, $handle; fileno $handle }
sub walk { my ($from, $path, $optional) = @_;
  my $at = folder($from, 1) // die "$from: $!\n";
  for my $name (split m{/}, $path) {
    $at = folder("/proc/self/fd/$at/$name") // ($optional && $!{ENOENT} ? return undef : die "$path: $!\n");
  }
  $at }

open my $host, "<", $namespace or die "namespace: $!\n";
pipe my $made_read, my $made_write; pipe my $done_read, my $done_write;
my $child = fork // die "fork: $!\n";
if (!$child) {
  close $made_read; close $done_write;
  call("unshare", $unshare, 0x10000000);
  syswrite $made_write, "x"; sysread $done_read, my $x, 1;
  exit 0;
}
close $made_write;
sysread $made_read, my $x, 1 or die "no user namespace\n";
for my $map ("uid_map", "gid_map") {
  open my $file, ">", "/proc/$child/$map" or die "$map: $!\n";
  syswrite $file, "65534 $user 1\n" or die "$map: $!\n";
}
open my $users, "<", "/proc/$child/ns/user" or die "user namespace: $!\n";

system("mount", "-t", "ext4", "-o", "loop,ro,nodev,nosuid,noatime,noload", "--", $image, $stage) == 0 or die "the image is not mounted\n";
call("prctl", $prctl, 28, 4, 0, 0, 0);
syscall($setfsuid, $user + 0);
my @overlays;
while (my ($lower, $upper, $work, $target) = splice @rest, 0, 4) {
  my $from = walk($stage, $lower, 1) // next;
  my $tree = call("open_tree", $OPEN_TREE, $from, $empty, 0x81001);
  my $idmap = pack "QQQQ", 0x100000, 0, 0, fileno $users;
  call("mount_setattr", $MOUNT_SETATTR, $tree, $empty, 0x1000, $idmap, 32);
  my $on = walk($mapped, "");
  call("move_mount", $MOVE_MOUNT, $tree, $empty, $on, $empty, 0x44);
  my @options = (
    lowerdir => "/proc/self/fd/" . walk($mapped, ""),
    upperdir => "/proc/self/fd/" . walk($root, $upper),
    workdir => "/proc/self/fd/" . walk($root, $work),
    redirect_dir => "on", index => "off", metacopy => "off",
  );
  my $type = "overlay"; my $source = "source";
  my $fs = call("fsopen", $FSOPEN, $type, 1);
  call("fsconfig", $FSCONFIG, $fs, 1, $source, $type, 0);
  while (my ($key, $value) = splice @options, 0, 2) { call("fsconfig $key", $FSCONFIG, $fs, 1, $key, $value, 0) }
  call("overlay", $FSCONFIG, $fs, 6, 0, 0, 0);
  push @overlays, [call("fsmount", $FSMOUNT, $fs, 1, 0x16), $target];
}
call("setns", $setns, fileno $host, 0x20000);
# All places before any overlay: after the first one there is nothing that could fail.
$_->[2] = walk($root, $_->[1]) for @overlays;
call("move_mount", $MOVE_MOUNT, $_->[0], $empty, $_->[2], $empty, 0x44) for @overlays;
`
