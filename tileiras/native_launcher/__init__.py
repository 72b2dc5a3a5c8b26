"""The command `tileiras` as a small native program, made where a C compiler is found.

    python -m tileiras.native_launcher

writes it in the place of the script that pip has made for the same command; installing again brings
that script back. It does what the script does, sooner:

- Where a snapshot of a warmed process fits, Python is not started: that process comes back.
- Where the resident compiler is allowed and answers, Python is not started at all.
- Else it becomes Python, isolated (`-I -S`), with the search path that this Python had when the
  program was made: no `site`, no finder of an editable installation.
- Signals that end a command wait while Python starts: they are answered with one line, never with a
  traceback of Python's own start.
- Where that Python is another one by now, or the packages have moved, the site module says where
  they are; where it is gone, the `python` beside the program is started.

Same command line, same bytes, same messages, same exit codes. Variables that change Python
(`PYTHONPATH` and its like) are obeyed: Python is started as the script would start it then.

`snapshot_starter.c` and `launcher.c` are the programs with a snapshot and without.
`snapshot_writer.c` and `snapshot.py` are in the process that is written. `__main__` builds all.
Nothing of the compiler imports this package.
"""
