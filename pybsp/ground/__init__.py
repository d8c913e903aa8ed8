"""What all layers stand on: files, settings, arguments. Nothing here knows of processors.

What is where:

    settings.py         the environment variables that pybsp heeds
    failures.py         what is known of an exception that leaves a program
    announcing.py       what pybsp says beside a program's own output
    instead.py          what there is instead of what a program may ask for, and is not
    convert.py          arguments, checked: arrays of a dtype, numbers, programs; dtypes.py: what says a dtype
    argument_types.py   what arguments of the command line may be
    files.py            files that are written whole or not at all
    decoding.py         files are data: one is decoded, or refused with file, field, expected and found
    drawing.py          pictures as SVG; console.py: tables
    chunk.py            the open chunk of a log, where rows are written; short_records.py: what small collectives show
    copying.py          copies into memory that other processors read, by plain stores or past the caches
    by_value.py         pickles of functions and classes by value; pickles.py: objects that others have pickled
    public.py           classes of which programs see a part
    managed.py          contexts that let every exception through as it is
    clocks.py           the offset between the clocks of two processors
    versions.py         versions of what takes part in a run
"""
