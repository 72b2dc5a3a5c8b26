set pagination off
set width 0
set breakpoint pending on
set cuda break_on_launch none
break scale_rows.py:10
run
info line
info args
print block
print rest
print step
print total
print x[0]@4
backtrace
info cuda kernels
delete breakpoints
break scale_rows.py:13
continue
print twice
print total
next
print result
info locals
delete breakpoints
continue
