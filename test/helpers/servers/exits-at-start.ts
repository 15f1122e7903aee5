// Is gone before it reads anything.

process.exitCode = 3;
