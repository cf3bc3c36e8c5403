#!/usr/bin/perl
# The cable of TroubledCable.ts: a device in this network namespace, one in a new one, and whoever carries packets between them, loses some,
# lets some wait, some overtake others, and comes twice with some. In Perl, since Node makes no devices, and since every Debian has it.
#
#     perl troubled-cable.pl NAMESPACE HERE THERE NEAR FAR SEED LOST DELAY OVERTAKING DOUBLED
#     perl troubled-cable.pl                   says whether there can be such devices
#
# HERE and THERE name the devices, NEAR and FAR are their addresses. LOST, OVERTAKING and DOUBLED are rates from 0 to 1; DELAY is the
# longest wait in milliseconds. Once there is a cable it says so by a line with the counts, and answers each line on standard input by one:
#
#     tell       nothing else
#     cut        carries nothing from now on, until it is mended
#     break N D  is cut with the Nth packet from now that has data of TCP, and mends when somebody dials for the Dth time
#     mend       carries again
#
# The end of standard input ends the cable, the devices and the namespace.
use strict;
use warnings;
use Fcntl;
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

my $TUNSETIFF = 0x400454ca;
my $IFF_TUN = 0x0001;
my $IFF_NO_PI = 0x1000;

# So many packets wait in each direction, and as many for this program: more are lost.
my $MOST_WAITING = 10_000;

sub device {
  my ($name) = @_;
  sysopen(my $device, "/dev/net/tun", O_RDWR | O_NONBLOCK) or die "/dev/net/tun: $!\n";
  ioctl($device, $TUNSETIFF, pack("a16 S x22", $name, $IFF_TUN | $IFF_NO_PI)) or die "a device: $!\n";
  return $device;
}

if (@ARGV == 0) {
  device("");
  exit 0;
}

my ($namespace, $here, $there, $near, $far, $seed, $lost, $delay, $overtaking, $doubled) = @ARGV;

# Whoever interrupts the tests ends them, and they end this.
$SIG{INT} = "IGNORE";
$SIG{TERM} = sub { exit 1 };

sub ip { system("ip", @_) == 0 or die "ip @_ failed\n" }

my $isOwner = 0;
END {
  my $status = $?;
  system("ip", "netns", "delete", $namespace) if $isOwner;
  $? = $status;
}

ip("netns", "add", $namespace);
$isOwner = 1;
my %files = (here => device($here), there => device($there));
ip("link", "set", $there, "netns", $namespace);
for my $end ([$here, $near], [$there, $far, "-n", $namespace]) {
  my ($name, $address, @in) = @$end;
  # Without an address of IPv6 the kernel says nothing by itself.
  ip(@in, "link", "set", $name, "addrgenmode", "none", "txqueuelen", $MOST_WAITING);
  ip(@in, "addr", "add", "$address/30", "dev", $name);
  ip(@in, "link", "set", $name, "up");
}
ip("-n", $namespace, "link", "set", "lo", "up");

# One for each direction: what one side says changes nothing of the other's luck.
sub way {
  my ($from, $to, $seed) = @_;
  my $way = {
    from => $files{$from}, to => $files{$to}, chance => 1 + $seed % 2147483646, waiting => [],
    took => 0, lost => 0, doubled => 0, overtook => 0, gave => 0
  };
  # The first draws from a small seed are small.
  chance($way) for 1 .. 10;
  return $way;
}
my %ways = (toThere => way("here", "there", 2 * $seed), toHere => way("there", "here", 2 * $seed + 1));

my $isCut = 0;
my $breaks = 0;
# Both count down.
my $untilBreak;
my $dialsLeft;

# From 0 to 1, by the minimal standard generator of Park and Miller.
sub chance {
  my ($way) = @_;
  $way->{chance} = $way->{chance} * 48271 % 2147483647;
  return $way->{chance} / 2147483647;
}

sub give {
  my ($way, $packet) = @_;
  my $written = syswrite($way->{to}, $packet);
  $way->{defined $written ? "gave" : "lost"}++;
}

sub later {
  my ($way, $packet, $due) = @_;
  if (@{$way->{waiting}} >= $MOST_WAITING) {
    $way->{lost}++;
    return;
  }
  # Who came later waits for who came before, however soon it is due.
  push @{$way->{waiting}}, [$due, $packet];
}

# Whether it opens a connection of TCP, and whether it has data of one.
sub look {
  my ($packet) = @_;
  my ($start, $length, $protocol) = unpack("C x n x5 C", $packet);
  my $head = 4 * ($start & 15);
  return (0, 0) if $protocol != 6 || length($packet) < $head + 20;
  my ($size, $flags) = unpack("x12 C C", substr($packet, $head));
  return (($flags & 0x12) == 0x02, $length > $head + 4 * ($size >> 4));
}

sub take {
  my ($way, $packet, $now) = @_;
  return if length($packet) < 20 || ord($packet) >> 4 != 4;
  $way->{took}++;
  my ($isDial, $hasData) = look($packet);
  if ($hasData && defined $untilBreak && --$untilBreak == 0) {
    undef $untilBreak;
    $isCut = 1;
    $breaks++;
  } elsif ($isDial && $isCut && defined $dialsLeft && --$dialsLeft == 0) {
    undef $dialsLeft;
    $isCut = 0;
  }
  # As many draws for every packet: the luck of one is not that of those before it.
  my ($loss, $wait, $hurry, $copy) = map { chance($way) } 1 .. 4;
  if ($isCut || $loss < $lost) {
    $way->{lost}++;
    return;
  }
  if ($hurry < $overtaking) {
    $way->{overtook} += @{$way->{waiting}};
    give($way, $packet);
  } else {
    later($way, $packet, $now + $wait * $delay / 1000);
  }
  if ($copy < $doubled) {
    $way->{doubled}++;
    later($way, $packet, $now + $delay / 1000);
  }
}

sub report {
  my @told = map {
    my $way = $ways{$_};
    my @counts = map { "\"$_\":$way->{$_}" } qw(took lost doubled overtook gave);
    "\"$_\":{" . join(",", @counts, "\"waiting\":" . @{$way->{waiting}}) . "}"
  } sort keys %ways;
  print "{", join(",", @told, "\"breaks\":$breaks", "\"isCut\":" . ($isCut ? "true" : "false")), "}\n";
}

sub obey {
  my ($line) = @_;
  if ($line eq "cut" || $line eq "mend") {
    $isCut = $line eq "cut";
    $untilBreak = $dialsLeft = undef;
  } elsif ($line =~ /^break ([1-9]\d*) ([1-9]\d*)$/) {
    $isCut = 0;
    ($untilBreak, $dialsLeft) = ($1, $2);
  } elsif ($line ne "tell") {
    die "what is $line?\n";
  }
  report();
}

$| = 1;
fcntl(STDIN, F_SETFL, fcntl(STDIN, F_GETFL, 0) | O_NONBLOCK);
report();

my $said = "";
for (;;) {
  my $now = clock_gettime(CLOCK_MONOTONIC);
  my $wait;
  for my $way (values %ways) {
    my $waiting = $way->{waiting};
    give($way, (shift @$waiting)->[1]) while @$waiting && $waiting->[0][0] <= $now;
    my $left = @$waiting ? $waiting->[0][0] - $now : undef;
    $wait = $left if defined $left && (!defined $wait || $left < $wait);
  }
  my $ready = "";
  vec($ready, fileno($_), 1) = 1 for \*STDIN, values %files;
  select($ready, undef, undef, $wait);
  my $count;
  1 while $count = sysread(STDIN, $said, 4096, length $said);
  obey($1) while $said =~ s/^(.*)\n//;
  # 0 is the end, and undefined that there is nothing yet.
  exit 0 if defined $count;
  $now = clock_gettime(CLOCK_MONOTONIC);
  for my $way (values %ways) {
    # Not all at once: what waits has its time too.
    for (1 .. 100) {
      defined sysread($way->{from}, my $packet, 65_536) or last;
      take($way, $packet, $now);
    }
  }
}
